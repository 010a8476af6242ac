// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/elf/elf_image.hpp"
#include "memleax/base/spare_descriptors.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <gelf.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dynamic_symbols.hpp"
#include "memleax/base/regular_file.hpp"
#include "memleax/elf/elf_file.hpp"
#include "memleax/elf/symbol_table.hpp"

namespace memleax {

namespace {

// PATH_MAX; a longer program interpreter could not be opened by the kernel either.
constexpr std::uint64_t kMaxInterpreter = 4096;

Error unreadable(const std::string& name) {
    const char* reason = elf_errmsg(-1);
    return Error(fmt::format("{}: cannot be read as ELF ({})", name,
                             reason != nullptr ? reason : "no reason given"));
}

/// Is [offset, offset + size) within a file of this size?
bool within(std::uint64_t offset, std::uint64_t size, std::uint64_t file_size) {
    return offset <= file_size && size <= file_size - offset;
}

std::string read_interpreter(Elf* elf, const GElf_Phdr& header) {
    const auto size =
        static_cast<std::size_t>(std::min<std::uint64_t>(header.p_filesz, kMaxInterpreter));
    const Elf_Data* data =
        elf_getdata_rawchunk(elf, static_cast<std::int64_t>(header.p_offset), size, ELF_T_BYTE);
    if (data == nullptr || data->d_buf == nullptr) {
        return {};
    }
    const auto* text = static_cast<const char*>(data->d_buf);
    return {text, strnlen(text, data->d_size)};
}

} // namespace

Result<std::shared_ptr<ElfImage>> ElfImage::open(const std::string& path) {
    auto fd = open_regular_file(path);
    if (!fd) {
        return std::move(fd).error();
    }
    return from_descriptor(*fd, path);
}

Result<std::shared_ptr<ElfImage>> ElfImage::from_descriptor(int fd, const std::string& name) {
    std::shared_ptr<ElfImage> image(new ElfImage);
    image->name_ = name;
    image->fd_ = fd;
    if (is_spare_descriptor(fd)) {
        return Error(name, EMFILE);
    }
    struct stat status {};
    if (fstat(fd, &status) != 0) {
        return Error(fmt::format("cannot look at {}", name), errno);
    }
    if (!S_ISREG(status.st_mode)) {
        return Error(fmt::format("{}: not a regular file", name));
    }
    image->file_size_ = static_cast<std::uint64_t>(status.st_size);
    image->modified_ = {status.st_mtim.tv_sec, status.st_mtim.tv_nsec};
    elf_version(EV_CURRENT);
    // Not ELF_C_READ_MMAP: somebody who truncates a library on disk would have us killed by SIGBUS,
    // with our breakpoints in the target. libelf reads single sections, when they are asked for.
    image->elf_ = elf_begin(fd, ELF_C_READ, nullptr);
    return parse(std::move(image));
}

Result<std::shared_ptr<ElfImage>> ElfImage::from_memory(std::vector<std::byte> bytes,
                                                        const std::string& name) {
    std::shared_ptr<ElfImage> image(new ElfImage);
    image->name_ = name;
    image->bytes_ = std::move(bytes);
    image->file_size_ = image->bytes_.size();
    elf_version(EV_CURRENT);
    if (!image->bytes_.empty()) {
        image->elf_ =
            elf_memory(reinterpret_cast<char*>(image->bytes_.data()), image->bytes_.size());
    }
    return parse(std::move(image));
}

ElfImage::~ElfImage() {
    if (elf_ != nullptr) {
        elf_end(elf_);
    }
    if (fd_ >= 0) {
        close(fd_);
    }
}

Result<std::shared_ptr<ElfImage>> ElfImage::parse(std::shared_ptr<ElfImage> image) {
    const std::string& name = image->name_;
    Elf* elf = image->elf_;
    if (elf == nullptr || elf_kind(elf) != ELF_K_ELF) {
        return Error(fmt::format("{}: not an ELF file", name));
    }
    GElf_Ehdr header;
    std::size_t count = 0;
    if (gelf_getehdr(elf, &header) == nullptr || elf_getphdrnum(elf, &count) != 0) {
        return unreadable(name);
    }
    if (header.e_type != ET_EXEC && header.e_type != ET_DYN) {
        return Error(fmt::format("{}: neither a program nor a shared library", name));
    }
    image->machine_ = header.e_machine;
    image->is_64bit_ = gelf_getclass(elf) == ELFCLASS64;
    image->position_independent_ = header.e_type == ET_DYN;
    for (std::size_t i = 0; i < count; ++i) {
        GElf_Phdr segment;
        if (gelf_getphdr(elf, static_cast<int>(i), &segment) == nullptr) {
            return unreadable(name);
        }
        image->is_dynamic_ |= segment.p_type == PT_INTERP || segment.p_type == PT_DYNAMIC;
        if (segment.p_type == PT_GNU_EH_FRAME) {
            image->eh_frame_header_ = ElfAddr(segment.p_vaddr);
        }
        if (segment.p_type != PT_LOAD && segment.p_type != PT_INTERP) {
            continue;
        }
        if (!within(segment.p_offset, segment.p_filesz, image->file_size_)) {
            return Error(fmt::format("{}: the file is truncated", name));
        }
        if (segment.p_type == PT_INTERP) {
            image->interpreter_ = read_interpreter(elf, segment);
        } else {
            image->segments_.push_back({ElfAddr(segment.p_vaddr), FileOffset(segment.p_offset),
                                        segment.p_filesz, segment.p_memsz,
                                        (segment.p_flags & PF_X) != 0,
                                        (segment.p_flags & PF_W) != 0, segment.p_align});
        }
    }
    if (!has_sane_notes(elf)) {
        return Error(fmt::format("{}: its notes are too large to be true", name));
    }
    if (image->segments_.empty()) {
        return Error(fmt::format("{}: has nothing to load", name));
    }
    // Now, as other threads than the handle's want it later.
    image->build_id_ = build_id_of(elf);
    return image;
}

bool ElfImage::changed_on_disk() const {
    struct stat status {};
    return fd_ >= 0 &&
           (fstat(fd_, &status) != 0 || static_cast<std::uint64_t>(status.st_size) != file_size_ ||
            modified_ != std::pair<std::int64_t, std::int64_t>(status.st_mtim.tv_sec,
                                                               status.st_mtim.tv_nsec));
}

std::optional<SymbolEntries> ElfImage::symbols_of(SymbolTable table) const {
    if (table == SymbolTable::full) {
        return debug_symbols_ != nullptr ? *debug_symbols_ : find_symbol_section(elf_, SHT_SYMTAB);
    }
    const auto section = find_symbol_section(elf_, SHT_DYNSYM);
    return section ? section : find_dynamic_symbols(elf_, segments_);
}

bool ElfImage::has_full_symbols() const {
    return symbols_of(SymbolTable::full).has_value();
}

void ElfImage::set_debug_symbols(std::shared_ptr<const SymbolEntries> symbols) {
    debug_symbols_ = std::move(symbols);
}

void ElfImage::for_each_function(SymbolTable table,
                                 const std::function<void(const ElfSymbol&)>& each,
                                 const NameFilter* filter) const {
    if (const auto entries = symbols_of(table)) {
        for_each_symbol(*entries, SymbolKind::function, each, filter);
    }
}

std::optional<ElfSymbol> ElfImage::find_variable(std::string_view name) const {
    std::optional<ElfSymbol> found;
    bool is_clear = true;
    const auto look_at = [&](const ElfSymbol& symbol) {
        if (symbol.name == name) {
            found = found.value_or(symbol);
            is_clear = is_clear && found->address == symbol.address;
        }
    };
    for (const SymbolTable table : {SymbolTable::dynamic, SymbolTable::full}) {
        if (const auto entries = symbols_of(table)) {
            for_each_symbol(*entries, SymbolKind::variable, look_at, nullptr);
        }
    }
    return is_clear ? found : std::nullopt;
}

} // namespace memleax
