// SPDX-License-Identifier: GPL-3.0-or-later
#include "elf_file.hpp"

#include <algorithm>
#include <cstdint>

#include <elfutils/libdwelf.h>
#include <fmt/format.h>
#include <unistd.h>

namespace memleax {

namespace {

/// Of a compressed section; 0 for others. SHF_COMPRESSED has a header of its own (gabi), the older
/// .zdebug_ sections begin with "ZLIB" and a big-endian size.
std::uint64_t unpacked_size(std::string_view name, const GElf_Shdr& header, Elf_Scn* section) {
    if ((header.sh_flags & SHF_COMPRESSED) != 0) {
        GElf_Chdr compression;
        return gelf_getchdr(section, &compression) != nullptr ? compression.ch_size : 0;
    }
    if (!name.starts_with(".zdebug_")) {
        return 0;
    }
    constexpr std::size_t kHeader = 12;
    const Elf_Data* data = elf_rawdata(section, nullptr);
    if (data == nullptr || data->d_buf == nullptr || data->d_size < kHeader) {
        return 0;
    }
    const auto* bytes = static_cast<const unsigned char*>(data->d_buf);
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

bool has_section(Elf* elf, const std::function<bool(std::string_view name, const GElf_Shdr& header,
                                                    Elf_Scn* section)>& is_wanted) {
    std::size_t names = 0;
    if (elf_getshdrstrndx(elf, &names) != 0) {
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

bool has_sane_sections(Elf* elf) {
    constexpr std::uint64_t kShare = 4; // of the machine's memory
    std::uint64_t left = static_cast<std::uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)) / kShare;
    return elf != nullptr && !has_section(elf, [&left](std::string_view name,
                                                       const GElf_Shdr& header, Elf_Scn* section) {
               const std::uint64_t size = unpacked_size(name, header, section);
               left -= std::min(size, left);
               return left == 0;
           });
}

std::string build_id_of(Elf* elf) {
    const void* bytes = nullptr;
    const ssize_t size = elf != nullptr ? dwelf_elf_gnu_build_id(elf, &bytes) : -1;
    std::string text;
    for (ssize_t i = 0; i < size; ++i) {
        text += fmt::format("{:02x}", static_cast<const unsigned char*>(bytes)[i]);
    }
    return text;
}

} // namespace memleax
