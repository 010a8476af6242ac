// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/exit_signal.hpp"

#include <cstdlib>
#include <sstream>

#include <fmt/format.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/proc/process_list.hpp"
#include "proc_file.hpp"

namespace memleax {

std::optional<int> parse_exit_signal(const std::string& stat) {
    // The name, which may have anything in it, is field 2.
    const std::size_t name_end = stat.rfind(')');
    if (name_end == std::string::npos) {
        return std::nullopt;
    }
    std::istringstream rest(stat.substr(name_end + 1));
    std::string field;
    constexpr int kField = 38;
    for (int number = 3; number <= kField; ++number) {
        if (!(rest >> field)) {
            return std::nullopt;
        }
    }
    return std::atoi(field.c_str());
}

std::vector<Tid> children_with_exit_signal(Tid parent, int signal) {
    std::vector<Tid> result;
    for (const Tid pid : list_processes()) {
        const auto stat = try_read_proc_file(fmt::format("/proc/{}/stat", pid.value()));
        if (!stat || parse_exit_signal(*stat) != signal) {
            continue;
        }
        const auto info = try_read_process_info(pid);
        if (info && info->parent == parent) {
            result.push_back(pid);
        }
    }
    return result;
}

} // namespace memleax
