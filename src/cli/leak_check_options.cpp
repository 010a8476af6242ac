// SPDX-License-Identifier: GPL-3.0-or-later
#include "leak_check_options.hpp"

#include "option_values.hpp"

namespace memleax {

bool is_single_look(const Options& options) {
    const bool watches = !options.command.empty() || options.time_s || options.interval_s ||
                         !options.commands.empty() || options.follow_forks || options.check ||
                         options.events || options.children || options.live ||
                         !options.at_memory.empty() || options.at_pressure ||
                         options.interactive == Options::Interactive::always;
    return options.leak_check && !watches;
}

void check_leak_check(const Options& options) {
    if (is_single_look(options) && options.format->write_leak_check == nullptr) {
        throw UsageError("--leak-check: goes with --format text, json and html only, unless --time "
                         "or another option says that the process is to be watched");
    }
    if (is_single_look(options) && options.pids.size() + options.names.size() > 1) {
        throw UsageError("--leak-check: looks at one process: give one PID, or --time as well");
    }
}

void check_errors_for_lost(const Options& options) {
    if (options.errors_for == ErrorsFor::lost && !options.leak_check) {
        throw UsageError("--errors-for: lost goes with --leak-check only");
    }
}

} // namespace memleax
