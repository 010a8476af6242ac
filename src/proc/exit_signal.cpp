// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/exit_signal.hpp"

#include <charconv>
#include <string_view>

#include <fmt/format.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/proc/process_list.hpp"
#include "proc_file.hpp"
#include "stat_fields.hpp"

namespace memleax {

std::optional<int> parse_exit_signal(const std::string& stat) {
    constexpr std::size_t kExitSignal = 38 - 3; // field 38
    const auto fields = stat_fields(stat);
    if (fields.size() <= kExitSignal) {
        return std::nullopt;
    }
    int signal = 0; // -1 of a thread that is not the first
    const std::string_view text = fields[kExitSignal];
    std::from_chars(text.data(), text.data() + text.size(), signal);
    return signal;
}

bool has_exit_signal(Tid pid, int signal) {
    const auto stat = try_read_proc_file(fmt::format("/proc/{}/stat", pid.value()));
    return stat && parse_exit_signal(*stat) == signal;
}

std::vector<Tid> children_with_exit_signal(Tid parent, int signal) {
    std::vector<Tid> result;
    for (const Tid pid : list_processes()) {
        if (!has_exit_signal(pid, signal)) {
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
