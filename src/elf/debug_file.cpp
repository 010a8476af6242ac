// SPDX-License-Identifier: GPL-3.0-or-later
// The file of option -d: looked at before anything is attached to.
#include <cerrno>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <unistd.h>

#include "memleax/symbolizer.hpp"

namespace memleax {

namespace {

class OpenElf {
  public:
    explicit OpenElf(const std::string& path)
        : fd_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)), errnum_(fd_ < 0 ? errno : 0) {
        elf_version(EV_CURRENT);
        elf_ = fd_ >= 0 ? elf_begin(fd_, ELF_C_READ, nullptr) : nullptr;
    }
    ~OpenElf() {
        elf_end(elf_);
        if (fd_ >= 0) {
            close(fd_);
        }
    }
    OpenElf(const OpenElf&) = delete;
    OpenElf& operator=(const OpenElf&) = delete;

    [[nodiscard]] int errnum() const { return errnum_; }
    [[nodiscard]] Elf* get() const { return elf_; }

  private:
    int fd_;
    int errnum_;
    Elf* elf_ = nullptr;
};

/// Has it DWARF, or at least the names of functions, with contents?
bool has_debug_information(Elf* elf) {
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
        const char* text = elf_strptr(elf, names, header.sh_name);
        const std::string_view name = text != nullptr ? text : "";
        if ((header.sh_type == SHT_SYMTAB || name == ".debug_info" || name == ".zdebug_info") &&
            elf_rawdata(section, nullptr) != nullptr) {
            return true;
        }
    }
    return false;
}

} // namespace

Result<void> Symbolizer::check_debug_file(const std::string& path) {
    const OpenElf file(path);
    if (file.errnum() != 0) {
        return Error(fmt::format("cannot open {}", path), file.errnum());
    }
    if (file.get() == nullptr || elf_kind(file.get()) != ELF_K_ELF) {
        return Error(fmt::format("{}: not an ELF file", path));
    }
    if (!has_debug_information(file.get())) {
        return Error(fmt::format("{}: has no debug information and no symbol table", path))
            .with_advice("build with -g, or install the package with the debug symbols");
    }
    return {};
}

} // namespace memleax
