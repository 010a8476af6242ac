// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/elf/elf_file.hpp"

#include <algorithm>
#include <cstdint>
#include <utility>

#include <elfutils/libdwelf.h>
#include <fmt/format.h>
#include <unistd.h>

namespace memleax {

namespace {

bool is_compressed(Elf_Scn* section) {
    GElf_Shdr header;
    return gelf_getshdr(section, &header) != nullptr && (header.sh_flags & SHF_COMPRESSED) != 0;
}

/// Of a compressed section; 0 for others. SHF_COMPRESSED has a header of its own (gabi), the older
/// .zdebug_ sections begin with "ZLIB" and a big-endian size. Not gelf_getchdr(), which reads the
/// whole section: debug files of a gigabyte are looked at before libdw needs a part of them.
std::uint64_t unpacked_size(Elf* elf, std::string_view name, const GElf_Shdr& header) {
    const auto begin = [&](std::size_t size, Elf_Type type) {
        const auto offset = static_cast<std::int64_t>(header.sh_offset);
        const Elf_Data* data =
            header.sh_size >= size ? elf_getdata_rawchunk(elf, offset, size, type) : nullptr;
        return data != nullptr ? data->d_buf : nullptr;
    };
    if ((header.sh_flags & SHF_COMPRESSED) != 0) {
        const void* bytes = begin(gelf_fsize(elf, ELF_T_CHDR, 1, EV_CURRENT), ELF_T_CHDR);
        if (bytes == nullptr) {
            return 0;
        }
        return gelf_getclass(elf) == ELFCLASS32 ? static_cast<const Elf32_Chdr*>(bytes)->ch_size
                                                : static_cast<const Elf64_Chdr*>(bytes)->ch_size;
    }
    constexpr std::size_t kHeader = 12;
    const void* old_header = name.starts_with(".zdebug_") ? begin(kHeader, ELF_T_BYTE) : nullptr;
    if (old_header == nullptr) {
        return 0;
    }
    const auto* bytes = static_cast<const unsigned char*>(old_header);
    std::uint64_t size = 0;
    for (std::size_t i = kHeader - sizeof size; i < kHeader; ++i) {
        size = size << 8 | bytes[i];
    }
    return size;
}

} // namespace

ElfFile::ElfFile(int fd) : fd_(fd) {
    elf_version(EV_CURRENT);
    elf_ = fd_ >= 0 ? elf_begin(fd_, ELF_C_READ, nullptr) : nullptr;
}

ElfFile::~ElfFile() {
    elf_end(elf_);
    if (fd_ >= 0) {
        close(fd_);
    }
}

void ElfFile::close_file() {
    elf_cntl(elf_, ELF_C_FDDONE);
    if (fd_ >= 0) {
        close(std::exchange(fd_, -1));
    }
}

bool has_section(Elf* elf, const std::function<bool(std::string_view name, const GElf_Shdr& header,
                                                    Elf_Scn* section)>& is_wanted) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0 || is_compressed(elf_getscn(elf, names))) {
        return false;
    }
    Elf_Scn* section = nullptr;
    while ((section = elf_nextscn(elf, section)) != nullptr) {
        GElf_Shdr header;
        if (gelf_getshdr(section, &header) == nullptr || header.sh_type == SHT_NOBITS) {
            continue;
        }
        const char* name = elf_strptr(elf, names, header.sh_name);
        if (is_wanted(name != nullptr ? name : "", header, section)) {
            return true;
        }
    }
    return false;
}

Elf_Data* read_section(Elf_Scn* section) {
    GElf_Shdr header;
    const bool is_sane = gelf_getshdr(section, &header) != nullptr &&
                         header.sh_size <= kMostElfTable && (header.sh_flags & SHF_COMPRESSED) == 0;
    return is_sane ? elf_getdata(section, nullptr) : nullptr;
}

bool has_sane_notes(Elf* elf) {
    constexpr std::uint64_t kMost = std::uint64_t{1} << 24U; // some have a hundred bytes
    std::size_t count = 0;
    if (elf_getphdrnum(elf, &count) != 0) {
        return false;
    }
    for (std::size_t i = 0; i < count; ++i) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, static_cast<int>(i), &segment) != nullptr &&
            segment.p_type == PT_NOTE && segment.p_filesz > kMost) {
            return false;
        }
    }
    return true;
}

bool has_sane_sections(Elf* elf) {
    constexpr std::uint64_t kShare = 4; // of the machine's memory
    std::uint64_t left = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / kShare;
    constexpr int kMost = 4096; // compressed ones: libelf looks for each in a list of all
    int compressed = 0;
    std::size_t names = 0;
    if (elf == nullptr || !has_sane_notes(elf)) {
        return false;
    }
    if (elf_getshdrstrndx(elf, &names) != 0) {
        return true;
    }
    // Compressed names would be unpacked by whoever asks for the first of them.
    return !is_compressed(elf_getscn(elf, names)) &&
           !has_section(elf, [&](std::string_view name, const GElf_Shdr& header, Elf_Scn*) {
               const std::uint64_t size = unpacked_size(elf, name, header);
               compressed += size != 0 ? 1 : 0;
               left -= std::min(size, left);
               return left == 0 || compressed > kMost;
           });
}

std::string build_id_of(Elf* elf) {
    const void* bytes = nullptr;
    const ssize_t size =
        elf != nullptr && has_sane_notes(elf) ? dwelf_elf_gnu_build_id(elf, &bytes) : -1;
    std::string text;
    for (ssize_t i = 0; i < size; ++i) {
        text += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
    }
    return text;
}

} // namespace memleax
