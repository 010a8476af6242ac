// SPDX-License-Identifier: GPL-3.0-or-later
#include "fuzz_support.hpp"

#include <algorithm>

#include <elf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "arch.hpp"
#include "memleax/base/log.hpp"

/// Warnings about the files would be most of the output.
extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
    memleax::set_log_level(memleax::LogLevel::error);
    return 0;
}

namespace memleax::fuzz {

int memory_file(Bytes bytes) {
    const int fd = memfd_create("fuzz", MFD_CLOEXEC);
    FUZZ_CHECK(fd >= 0);
    FUZZ_CHECK(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    return fd;
}

std::shared_ptr<ElfImage> image_of(Bytes bytes) {
    auto image = ElfImage::from_descriptor(memory_file(bytes), "fuzz");
    FUZZ_CHECK(image || !image.error().message().empty());
    return image ? *image : nullptr;
}

std::shared_ptr<Module> module_of(std::shared_ptr<ElfImage> image) {
    auto module = std::make_shared<Module>();
    module->path = "/nonexistent/fuzz";
    module->name = "fuzz";
    for (const ElfSegment& segment : image->segments()) {
        const std::uint64_t begin = segment.address.value();
        if (segment.executable && begin + segment.memory_size > begin) {
            module->executable.push_back({begin, begin + segment.memory_size});
        }
    }
    module->image = std::move(image);
    return module;
}

std::vector<std::uint64_t> addresses_in(const ElfImage& image, std::size_t count) {
    std::vector<std::uint64_t> addresses;
    constexpr std::size_t kOfEach = 4;
    for (const ElfSegment& segment : image.segments()) {
        for (std::size_t i = 0; segment.executable && i < kOfEach; ++i) {
            addresses.push_back(segment.address.value() + segment.memory_size / kOfEach * i);
        }
    }
    addresses.resize(std::min(addresses.size(), count / 2));
    for (const SymbolTable table : {SymbolTable::full, SymbolTable::dynamic}) {
        image.for_each_function(table, [&](const ElfSymbol& symbol) {
            if (addresses.size() < count) {
                addresses.push_back(symbol.address.value() + symbol.size / 2);
            }
        });
    }
    return addresses;
}

std::vector<std::uint8_t> elf_with(const std::vector<Section>& sections) {
    constexpr std::uint64_t kCode = 0x1000;
    std::string names("\0.text\0.shstrtab\0", 17);
    std::vector<std::uint8_t> file(sizeof(Elf64_Ehdr) + sizeof(Elf64_Phdr));
    std::vector<Elf64_Shdr> headers(2);
    headers[1] = {1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, kCode, 0, file.size(), 0, 0, 16, 0};
    const auto append = [&](std::uint32_t name, std::uint32_t type, Bytes contents) {
        file.resize((file.size() + 7) / 8 * 8);
        headers.push_back({name, type, 0, 0, file.size(), contents.size(), 0, 0, 1, 0});
        file.insert(file.end(), contents.begin(), contents.end());
    };
    for (const Section& section : sections) {
        append(static_cast<std::uint32_t>(names.size()), section.type, section.contents);
        names += section.name + '\0';
    }
    append(7, SHT_STRTAB, Bytes(reinterpret_cast<const std::uint8_t*>(names.data()), names.size()));
    file.resize((file.size() + 7) / 8 * 8);

    Elf64_Ehdr header{};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_DYN;
    header.e_machine = arch::kElfMachine;
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof header;
    header.e_shoff = file.size();
    header.e_ehsize = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    header.e_shentsize = sizeof(Elf64_Shdr);
    header.e_shnum = static_cast<std::uint16_t>(headers.size());
    header.e_shstrndx = static_cast<std::uint16_t>(headers.size() - 1);
    const Elf64_Phdr segment{PT_LOAD, PF_R | PF_X, 0, kCode, kCode, 0, 0x1000, 0x1000};
    std::memcpy(file.data(), &header, sizeof header);
    std::memcpy(file.data() + sizeof header, &segment, sizeof segment);
    const auto* table = reinterpret_cast<const std::uint8_t*>(headers.data());
    file.insert(file.end(), table, table + headers.size() * sizeof(Elf64_Shdr));
    return file;
}

std::size_t RepeatedMemory::try_read(RemoteAddr from, std::span<std::byte> out) {
    const std::uint64_t offset = from.value() - begin_;
    if (offset >= size_ || pattern_.empty()) {
        return 0;
    }
    const std::size_t count = std::min<std::uint64_t>(out.size(), size_ - offset);
    for (std::size_t done = 0; done < count;) {
        const std::size_t at = (offset + done) % pattern_.size();
        const std::size_t part = std::min(count - done, pattern_.size() - at);
        std::memcpy(out.data() + done, pattern_.data() + at, part);
        done += part;
    }
    return count;
}

} // namespace memleax::fuzz
