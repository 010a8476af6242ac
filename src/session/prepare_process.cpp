// SPDX-License-Identifier: GPL-3.0-or-later
#include <csignal>
#include <fstream>
#include <optional>

#include <pthread.h>
#include <unistd.h>

#include "memleax/session/inherited_environment.hpp"
#include "memleax/session/session.hpp"
#include "session_signals.hpp"

namespace memleax {

sigset_t session_signals() {
    sigset_t set;
    sigemptyset(&set);
    // SIGTSTP: a stopped memleax would leave the target standing at its next breakpoint.
    for (const int signal : {SIGINT, SIGTERM, SIGQUIT, SIGXCPU, SIGTSTP, SIGWINCH}) {
        sigaddset(&set, signal);
    }
    // nohup(1)'s.
    static const bool ignores_hangups = [] {
        struct sigaction inherited {};
        return sigaction(SIGHUP, nullptr, &inherited) == 0 && inherited.sa_handler == SIG_IGN;
    }();
    if (!ignores_hangups) {
        sigaddset(&set, SIGHUP);
    }
    return set;
}

namespace {

/// What is mapped of the kind that RLIMIT_DATA counts: field 6 of statm (proc(5)), stacks included.
std::optional<rlim_t> data_bytes() {
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    for (unsigned field = 1; field <= 6; ++field) {
        statm >> pages;
    }
    return statm ? std::optional(pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE))) : std::nullopt;
}

/// A file of the target's can make libdw ask for gigabytes (docs/hostile-input.md). Out of
/// memory, we are told so and leave in order, where the kernel would pick somebody to kill: us,
/// with our breakpoints in the target, or the target.
void limit_memory(rlimit limit) {
    const rlim_t all =
        static_cast<rlim_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<rlim_t>(sysconf(_SC_PAGESIZE));
    const rlim_t most = all / 4 * 3;
    const auto mapped = data_bytes();
    // Sanitizers map terabytes that they never use.
    if (mapped && *mapped < most / 2 && limit.rlim_cur > most) {
        limit.rlim_cur = most;
        setrlimit(RLIMIT_DATA, &limit);
    }
}

} // namespace

SpawnAttributes prepare_process() {
    // A reader that goes away (memleax PID | head), a terminal that does, or a report that is
    // larger than files may be (RLIMIT_FSIZE), must not kill us while there are breakpoints in the
    // target: writes fail with EPIPE, EIO or EFBIG instead.
    SpawnAttributes before;
    sigemptyset(&before.ignored_signals);
    const auto note = [&before](int signal, auto* former) {
        if (former == SIG_IGN) {
            sigaddset(&before.ignored_signals, signal);
        }
    };
    for (const int signal : kIgnoredSignals) {
        note(signal, std::signal(signal, SIG_IGN));
    }
    // Stops of traced threads need not be told by signal as well: we wait for them.
    struct sigaction quiet {};
    quiet.sa_handler = SIG_DFL;
    quiet.sa_flags = SA_NOCLDSTOP;
    struct sigaction former {};
    sigaction(SIGCHLD, &quiet, &former);
    note(SIGCHLD, former.sa_handler);

    const sigset_t set = session_signals();
    pthread_sigmask(SIG_BLOCK, &set, &before.signal_mask);
    getrlimit(RLIMIT_NOFILE, &before.open_files);
    const rlimit raised{before.open_files.rlim_max, before.open_files.rlim_max};
    setrlimit(RLIMIT_NOFILE, &raised);
    getrlimit(RLIMIT_DATA, &before.data);
    limit_memory(before.data);
    before.environment = take_inherited_environment();
    return before;
}

} // namespace memleax
