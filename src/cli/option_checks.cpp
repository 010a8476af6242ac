// SPDX-License-Identifier: GPL-3.0-or-later
#include "option_checks.hpp"

#include <algorithm>

#include <fmt/format.h>
#include <unistd.h>

#include "memleax/report/live_lines.hpp"
#include "option_values.hpp"

namespace memleax {

void take_target(const std::vector<std::string>& positionals, bool has_command, Options& options) {
    if (has_command && options.command.empty()) {
        throw UsageError("there is no COMMAND after '--'");
    }
    if (has_command && !positionals.empty()) {
        throw UsageError(fmt::format("'{}' and a COMMAND: give one of them", positionals[0]));
    }
    if (has_command && options.ns_pid) {
        throw UsageError("--ns-pid and a COMMAND: give one of them");
    }
    if (has_command) {
        return;
    }
    if (positionals.empty()) {
        throw UsageError("no PID and no COMMAND is given");
    }
    if (positionals.size() > 1) {
        throw UsageError(fmt::format("'{}': only one PID can be watched", positionals[1]));
    }
    options.pid = parse_pid(positionals[0]);
}

void take_expiry(std::optional<double> given, Options& options) {
    constexpr double kParts = 3;
    if (!given) {
        if (options.time_s) {
            options.expire_s = std::min(options.expire_s, *options.time_s / kParts);
        }
        return;
    }
    options.expire_s = *given;
    if (options.time_s && *given >= *options.time_s) {
        throw UsageError(fmt::format(
            "--expire: no block gets {} seconds old in the {} of --time: give less, or more time",
            seconds_text(*given), seconds_text(*options.time_s)));
    }
}

void check_events(const Options& options) {
    if (options.events && !options.allocators->tracked().any_mapped()) {
        throw UsageError("--events: no mapped memory is followed: add --track heap,mmap,brk,shm");
    }
    if (options.events && options.format->write != write_text) {
        throw UsageError("--events: goes with --format text only");
    }
}

void check_errors(bool has_errors_for, const Options& options) {
    if (has_errors_for && options.error_exitcode == 0) {
        throw UsageError("--errors-for: goes with --error-exitcode only");
    }
}

void refuse_binary_on_terminal(const Options& options) {
    if (options.format->is_binary && options.output.empty() && isatty(STDOUT_FILENO) == 1) {
        throw UsageError(fmt::format("--format: {} is not for a terminal: give a file with -o",
                                     options.format->name));
    }
}

} // namespace memleax
