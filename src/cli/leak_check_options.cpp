// SPDX-License-Identifier: GPL-3.0-or-later
#include "leak_check_options.hpp"

#include <fmt/format.h>

#include "option_values.hpp"

namespace memleax {

void check_leak_check(const Options& options) {
    if (!options.leak_check) {
        return;
    }
    const auto refuse = [](bool is_given, const char* what) {
        if (is_given) {
            throw UsageError(fmt::format("--leak-check and {}: give one of them", what));
        }
    };
    refuse(!options.command.empty(), "a COMMAND");
    refuse(options.time_s.has_value(), "--time");
    refuse(options.interval_s.has_value(), "--interval");
    refuse(!options.commands.empty(), "-x");
    refuse(options.interactive == Options::Interactive::always, "--interactive");
    refuse(options.follow_forks, "--follow-forks");
    refuse(options.children, "--children");
    refuse(options.live, "--live");
    refuse(options.check, "--check");
    if (options.pids.size() + options.names.size() > 1) {
        throw UsageError("--leak-check: looks at one process: give one PID");
    }
    refuse(options.events, "--events");
    if (options.format->write != write_text && options.format->write != write_json) {
        throw UsageError("--leak-check: goes with --format text and json only");
    }
}

} // namespace memleax
