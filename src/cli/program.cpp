// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/cli/program.hpp"

#include <unistd.h>

#include "frontend.hpp"
#include "leak_check_options.hpp"
#include "memleax/base/log.hpp"
#include "memleax/session/leak_check.hpp"

namespace memleax {

int run_program(const Options& options, const SpawnAttributes& inherited) {
    if (is_single_look(options)) {
        return run_leak_check(options, inherited);
    }
    auto session = Session::open(options, inherited);
    if (!session) {
        log_error("{}", session.error().message());
        return 1;
    }
    const bool terminal = isatty(STDIN_FILENO) == 1;
    bool interactive = options.interactive == Options::Interactive::always;
    if (options.interactive == Options::Interactive::automatic) {
        // In the background (memleax PID &) reading from the terminal would stop us.
        interactive = terminal && isatty(STDOUT_FILENO) == 1 && !options.time_s &&
                      !options.interval_s && options.command.empty() &&
                      tcgetpgrp(STDIN_FILENO) == getpgrp();
    }
    const Frontend::Input input = !interactive ? Frontend::Input::none
                                  : terminal   ? Frontend::Input::terminal
                                               : Frontend::Input::stream;
    Frontend frontend(**session, options, input);
    return (*session)->run(&frontend);
}

} // namespace memleax
