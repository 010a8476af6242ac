// SPDX-License-Identifier: GPL-3.0-or-later
#include <csignal>
#include <pthread.h>

#include "memleax/session.hpp"
#include "session_signals.hpp"

namespace memleax {

sigset_t session_signals() {
    sigset_t set;
    sigemptyset(&set);
    // SIGTSTP: a stopped memleax would leave the target standing at its next breakpoint.
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGTSTP, SIGWINCH}) {
        sigaddset(&set, signal);
    }
    return set;
}

Inherited prepare_process() {
    // A reader that goes away (memleax PID | head), or a terminal that does, must not kill us while
    // there are breakpoints in the target: writes fail with EPIPE or EIO instead.
    signal(SIGPIPE, SIG_IGN);
    signal(SIGTTOU, SIG_IGN);
    // Stops of traced threads need not be told by signal as well: we wait for them.
    struct sigaction quiet {};
    quiet.sa_handler = SIG_DFL;
    quiet.sa_flags = SA_NOCLDSTOP;
    sigaction(SIGCHLD, &quiet, nullptr);

    const sigset_t set = session_signals();
    Inherited before;
    pthread_sigmask(SIG_BLOCK, &set, &before.signal_mask);
    getrlimit(RLIMIT_NOFILE, &before.open_files);
    const rlimit raised{before.open_files.rlim_max, before.open_files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
    return before;
}

} // namespace memleax
