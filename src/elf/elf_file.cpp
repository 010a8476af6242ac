// SPDX-License-Identifier: GPL-3.0-or-later
#include "elf_file.hpp"

#include <cerrno>

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace memleax {

ElfFile::ElfFile(const std::string& path)
    : ElfFile(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {}

ElfFile::ElfFile(int fd) : fd_(fd), errnum_(fd < 0 ? errno : 0) {
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
