// SPDX-License-Identifier: GPL-3.0-or-later
#include "debug_image.hpp"

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <dwarf.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "elf_files_only.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/spare_descriptors.hpp"
#include "memleax/elf/elf_file.hpp"

namespace memleax {

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

namespace {

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

/// Called by libdwfl, first for the separate debug file, if the module's own file has no debug
/// information, then for what .gnu_debugaltlink of either names.
std::optional<FoundDebugFile> DebugImage::find_separate(const char* link, GElf_Word crc) {
    const DebugFileSearch search(sources_, root_.get());
    const ElfFile own(open_again(*image_));
    const auto own_alt = alt_link_of(own.get());
    for (const auto& alt : {separate_alt_, own_alt}) {
        if (link != nullptr && alt && alt->name == link) {
            return search.find({.build_id = alt->build_id,
                                .link = alt->name,
                                .crc = std::nullopt,
                                .named_in = separate_path_.empty() ? path_ : separate_path_,
                                .module = name_});
        }
    }
    std::optional<FoundDebugFile> found;
    if (!debug_file_.empty()) {
        const int fd = open_elf_file(debug_file_.c_str());
        if (fd >= 0) {
            found = FoundDebugFile{fd, debug_file_};
        }
    } else {
        found = search.find({.build_id = build_id_of(own.get()),
                             .link = link != nullptr ? link : "",
                             .crc = link != nullptr ? std::optional(crc) : std::nullopt,
                             .named_in = path_,
                             .module = name_});
    }
    if (found) {
        separate_path_ = found->path;
        separate_alt_ = alt_link_of(ElfFile(fcntl(found->fd, F_DUPFD_CLOEXEC, 0)).get());
    }
    return found;
}

int DebugImage::find_debug_file(Dwfl_Module* /*module*/, void** userdata, const char* /*name*/,
                                Dwarf_Addr /*base*/, const char* /*file_name*/,
                                const char* debuglink, GElf_Word crc, char** found) {
    auto* self = static_cast<DebugImage*>(*userdata);
    const auto file = self != nullptr ? self->find_separate(debuglink, crc) : std::nullopt;
    if (!file) {
        errno = 0; // nothing is wrong
        return -1;
    }
    *found = strdup(file->path.c_str()); // libdwfl frees it
    return file->fd;
}

std::unique_ptr<DebugImage> DebugImage::open(const Module& module, const std::string& debug_file,
                                             const DebugSources& sources) {
    if (!debug_file.empty()) {
        warn_of_other_build(*module.image, module.path, debug_file);
    }
    std::unique_ptr<DebugImage> self(new DebugImage(module, debug_file, sources));
    if (!self->report(open_again(*self->image_), module.path)) {
        return nullptr;
    }
    // libdwfl asks for a debug file only where the file itself has no debug information. What the
    // user named goes before that too: it then takes the place of the file.
    if (!debug_file.empty() && !self->used_debug_file()) {
        std::unique_ptr<DebugImage> instead(new DebugImage(module, debug_file, sources));
        const int fd = open_elf_file(debug_file.c_str());
        instead->separate_path_ = debug_file;
        instead->separate_alt_ =
            alt_link_of(ElfFile(fd >= 0 ? fcntl(fd, F_DUPFD_CLOEXEC, 0) : -1).get());
        if (instead->report(fd, debug_file)) {
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
    static const Dwfl_Callbacks callbacks{find_no_elf, find_debug_file, nullptr, nullptr};
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

const VariableIndex& DebugImage::variables() {
    if (!variables_) {
        variables_.emplace(module_);
    }
    return *variables_;
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
    const Dwarf_Addr in_dwarf = address.value() - bias;
    Dwarf_Die by_table;
    // Not dwfl_module_addrdie(): it gives the code of a unit that is not in .debug_aranges to the
    // unit before it there.
    const std::optional<Dwarf_Die> unit = dwarf_addrdie(dwarf, in_dwarf, &by_table) != nullptr
                                              ? by_table
                                              : find_unit_by_range(dwarf, in_dwarf);
    if (!unit) {
        return std::nullopt;
    }
    return UnitAddress{*unit, &functions_of(*unit), in_dwarf};
}

/// What .debug_aranges does not have. libdw does this itself from 0.191 on.
std::optional<Dwarf_Die> DebugImage::find_unit_by_range(Dwarf* dwarf, Dwarf_Addr address) {
    if (!units_) {
        units_.emplace(dwarf);
    }
    return units_->find(address);
}

/// Beside the file with the debug information, or the program: "x.debug.dwp", "x.dwp".
const DwoPackage* DebugImage::find_package() {
    if (!looked_for_package_) {
        looked_for_package_ = true;
        for (const std::string& path : {separate_path_, path_}) {
            if (path.empty() || package_ != nullptr) {
                continue;
            }
            const std::string name = path + ".dwp";
            int fd = root_ != nullptr ? open_elf_file_in(*root_, name.c_str()) : -1;
            if (fd < 0) {
                fd = open_elf_file(name.c_str());
            }
            if (fd >= 0) {
                package_ = DwoPackage::open(fd);
            }
        }
    }
    return package_.get();
}

const UnitFunctions& DebugImage::functions_of(Dwarf_Die unit) {
    auto& functions = functions_[unit.addr];
    if (functions == nullptr) {
        // The functions may be in another file than the lines (-gsplit-dwarf).
        std::uint8_t type = 0;
        std::uint64_t id = 0;
        Dwarf_Die split{};
        bool is_split =
            dwarf_cu_info(unit.cu, nullptr, &type, nullptr, nullptr, &id, nullptr, nullptr) == 0 &&
            type == DW_UT_skeleton;
        if (is_split) {
            const DwoPackage* package = find_package();
            const DwoPackage::Offer offer(package != nullptr ? package->make_dwo(id) : -1);
            is_split = dwarf_cu_info(unit.cu, nullptr, nullptr, nullptr, &split, nullptr, nullptr,
                                     nullptr) == 0 &&
                       split.addr != nullptr;
        }
        functions = std::make_unique<UnitFunctions>(is_split ? split : unit);
    }
    return *functions;
}

} // namespace memleax
