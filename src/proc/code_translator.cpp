// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/code_translator.hpp"

#include <algorithm>
#include <filesystem>

#include <fmt/format.h>
#include <unistd.h>

#include "memleax/base/regular_file.hpp"
#include "memleax/elf/elf_image.hpp"
#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/target_root.hpp"

namespace memleax {

namespace {

using std::filesystem::path;

/// Installed, a tool has it in its own folder (VALGRIND_LIB).
bool has_beside_it(Tid pid, const std::string& executable, const std::string& name) {
    const std::string file = path(executable).replace_filename(name);
    const auto root = TargetRoot::of(living_thread(pid));
    const auto fd = root != nullptr ? root->open_file(file) : open_regular_file(file);
    if (fd) {
        close(*fd);
    }
    return fd.ok();
}

/// It may lie elsewhere (valgrind's own build folders), and its file may have been removed.
bool has_mapped(Tid pid, const std::string& name) {
    const auto maps = read_maps(pid);
    return maps && std::any_of(maps->begin(), maps->end(), [&name](const Mapping& mapping) {
               return path(mapping.path).filename() == name;
           });
}

/// In the tools' folder is a program of another kind, too (getoff-amd64-linux).
bool has_dynamic_linker(Tid pid) {
    const auto image = ElfImage::open(fmt::format("/proc/{}/exe", living_thread(pid).value()));
    return !image || !(*image)->interpreter().empty();
}

} // namespace

// valgrind's coregrind/launcher-linux.c and coregrind/m_initimg/initimg-linux.c make up both names,
// of a platform that has one "-" in it.
std::string core_of_valgrind_tool(const std::string& executable) {
    const std::string name = path(executable).filename();
    const std::size_t system = name.rfind('-');
    const std::size_t cpu =
        system != std::string::npos && system > 0 ? name.rfind('-', system - 1) : std::string::npos;
    if (cpu == std::string::npos || cpu == 0 || system == cpu + 1 ||
        name.substr(system) != "-linux") {
        return {};
    }
    return fmt::format("vgpreload_core{}.so", name.substr(cpu));
}

bool is_run_by_valgrind(Tid pid) {
    const std::string executable = executable_path(pid);
    const std::string core = core_of_valgrind_tool(executable);
    return !core.empty() && (has_beside_it(pid, executable, core) || has_mapped(pid, core)) &&
           !has_dynamic_linker(pid);
}

Result<void> check_not_translated(Tid pid) {
    if (!is_run_by_valgrind(pid)) {
        return {};
    }
    const auto info = try_read_process_info(living_thread(pid));
    return Error(fmt::format("cannot watch process {} ({}): it is run by valgrind: what it "
                             "executes is a translation of its program, and its registers are "
                             "valgrind's",
                             pid.value(), info ? info->comm : "?"))
        .with_advice("run it without valgrind");
}

} // namespace memleax
