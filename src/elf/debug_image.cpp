// SPDX-License-Identifier: GPL-3.0-or-later
#include "debug_image.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include <dwarf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf_file.hpp"
#include "elf_files_only.hpp"
#include "memleax/log.hpp"
#include "memleax/spare_descriptors.hpp"

namespace memleax {

namespace {

constexpr std::size_t kMaxRanges = std::size_t{1} << 24; // of all units; a large program has 10^6

/// The image's bytes as a file that has nothing to do with the image's own libelf handle.
int open_again(const ElfImage& image) {
    if (image.descriptor() >= 0) {
        const int fd =
            open(fmt::format("/proc/self/fd/{}", image.descriptor()).c_str(), O_RDONLY | O_CLOEXEC);
        // libelf only maps and preads, so sharing a file position does no harm.
        return fd >= 0 ? fd : fcntl(image.descriptor(), F_DUPFD_CLOEXEC, 0);
    }
    const int fd = memfd_create("memleax", MFD_CLOEXEC);
    const auto bytes = image.bytes();
    if (fd >= 0 && write(fd, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
        close(fd);
        return -1;
    }
    return fd;
}

/// Lines and names of another build would be wrong, and look right.
void warn_of_other_build(const ElfImage& image, const std::string& path,
                         const std::string& debug_file) {
    // The image's own libelf handle belongs to another thread.
    const std::string program = build_id_of(ElfFile(open_again(image)).get());
    const std::string debug = build_id_of(ElfFile(open_elf_file(debug_file.c_str())).get());
    if (!program.empty() && !debug.empty() && program != debug) {
        log_warning("{} does not belong to {}: its build-id is {}, the program's {}; names and "
                    "lines may be wrong",
                    debug_file, path, debug, program);
    }
}

/// The module's main file is given to libdwfl when the session begins, so it never has to look.
int find_no_elf(Dwfl_Module*, void**, const char*, Dwarf_Addr, char**, Elf**) {
    return -1;
}

} // namespace

int DebugImage::find_debug_file(Dwfl_Module* module, void** userdata, const char* name,
                                Dwarf_Addr base, const char* file_name, const char* debuglink,
                                GElf_Word crc, char** found) {
    const auto* self = static_cast<const DebugImage*>(*userdata);
    if (self == nullptr || self->debug_file_.empty()) {
        return dwfl_standard_find_debuginfo(module, userdata, name, base, file_name, debuglink, crc,
                                            found);
    }
    const int fd = open_elf_file(self->debug_file_.c_str());
    if (fd >= 0) {
        *found = strdup(self->debug_file_.c_str()); // libdwfl frees it
    }
    return fd;
}

std::unique_ptr<DebugImage> DebugImage::open(std::shared_ptr<const ElfImage> image,
                                             const std::string& path,
                                             const std::string& debug_file) {
    if (!debug_file.empty()) {
        warn_of_other_build(*image, path, debug_file);
    }
    std::unique_ptr<DebugImage> self(new DebugImage(std::move(image), debug_file));
    if (!self->report(open_again(*self->image_), path)) {
        return nullptr;
    }
    // libdwfl asks for a debug file only where the file itself has no debug information. What the
    // user named goes before that too: it then takes the place of the file.
    if (!debug_file.empty() && !self->used_debug_file()) {
        std::unique_ptr<DebugImage> instead(new DebugImage(self->image_, debug_file));
        if (instead->report(open_elf_file(debug_file.c_str()), debug_file)) {
            return instead;
        }
    }
    return self;
}

/// Begins the session with this file, whose descriptor it takes over.
bool DebugImage::report(int fd, const std::string& path) {
    if (fd < 0 || is_spare_descriptor(fd) ||
        !has_sane_sections(ElfFile(fcntl(fd, F_DUPFD_CLOEXEC, 0)).get())) {
        if (fd >= 0) {
            close(fd);
        }
        return false;
    }
    static char* debug_path = nullptr; // libdwfl's own default: ":.debug:/usr/lib/debug"
    static const Dwfl_Callbacks callbacks{find_no_elf, find_debug_file, nullptr, &debug_path};
    session_.reset(dwfl_begin(&callbacks));
    if (session_ == nullptr) {
        close(fd);
        return false;
    }
    dwfl_report_begin(session_.get());
    // Base 0, and p_vaddr added to it: libdwfl's addresses are the file's own.
    module_ = dwfl_report_elf(session_.get(), path.c_str(), path.c_str(), fd, 0, true);
    if (module_ == nullptr) {
        close(fd);
    }
    dwfl_report_end(session_.get(), nullptr, nullptr);
    if (module_ == nullptr) {
        return false;
    }
    void** userdata = nullptr;
    dwfl_module_info(module_, &userdata, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr);
    *userdata = this;
    return true;
}

bool DebugImage::used_debug_file() {
    Dwarf_Addr bias = 0;
    const char* debug_file = nullptr;
    if (dwfl_module_getdwarf(module_, &bias) != nullptr) {
        dwfl_module_info(module_, nullptr, nullptr, nullptr, nullptr, nullptr, nullptr,
                         &debug_file);
    }
    return debug_file != nullptr;
}

const SymbolIndex& DebugImage::symbols() {
    if (!symbols_) {
        symbols_.emplace(module_);
    }
    return *symbols_;
}

std::optional<UnitAddress> DebugImage::find_unit(ElfAddr address) {
    Dwarf_Addr bias = 0;
    Dwarf* dwarf = dwfl_module_getdwarf(module_, &bias);
    if (dwarf == nullptr) {
        return std::nullopt;
    }
    std::optional<Dwarf_Die> unit;
    if (const Dwarf_Die* found = dwfl_module_addrdie(module_, address.value(), &bias)) {
        unit = *found;
    } else {
        unit = find_unit_by_range(dwarf, address.value() - bias);
    }
    if (!unit) {
        return std::nullopt;
    }
    return UnitAddress{*unit, &functions_of(*unit), address.value() - bias};
}

/// For compilers that write no .debug_aranges (clang, rustc): each unit tells its own ranges. libdw
/// does this itself from 0.191 on.
std::optional<Dwarf_Die> DebugImage::find_unit_by_range(Dwarf* dwarf, Dwarf_Addr address) {
    if (!units_) {
        units_.emplace();
        Dwarf_CU* unit = nullptr;
        Dwarf_Die die;
        while (dwarf_get_units(dwarf, unit, &unit, nullptr, nullptr, &die, nullptr) == 0) {
            Dwarf_Addr base = 0;
            Dwarf_Addr begin = 0;
            Dwarf_Addr end = 0;
            std::ptrdiff_t offset = 0;
            // Many units can share one long list: see UnitFunctions.
            while (units_->size() < kMaxRanges &&
                   (offset = dwarf_ranges(&die, offset, &base, &begin, &end)) > 0) {
                units_->push_back({begin, end, die});
            }
        }
        std::sort(units_->begin(), units_->end(),
                  [](const UnitRange& a, const UnitRange& b) { return a.begin < b.begin; });
    }
    const auto after =
        std::upper_bound(units_->begin(), units_->end(), address,
                         [](Dwarf_Addr a, const UnitRange& range) { return a < range.begin; });
    if (after == units_->begin() || std::prev(after)->end <= address) {
        return std::nullopt;
    }
    return std::prev(after)->unit;
}

const UnitFunctions& DebugImage::functions_of(Dwarf_Die unit) {
    auto& functions = functions_[unit.addr];
    if (functions == nullptr) {
        // The functions may be in another file than the lines (-gsplit-dwarf).
        std::uint8_t type = 0;
        Dwarf_Die split;
        const bool is_split = dwarf_cu_info(unit.cu, nullptr, &type, nullptr, &split, nullptr,
                                            nullptr, nullptr) == 0 &&
                              type == DW_UT_skeleton && split.addr != nullptr;
        functions = std::make_unique<UnitFunctions>(is_split ? split : unit);
    }
    return *functions;
}

} // namespace memleax
