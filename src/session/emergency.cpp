// SPDX-License-Identifier: GPL-3.0-or-later
#include "emergency.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>

#include <ucontext.h>
#include <unistd.h>

#include "memleax/session/crash_terminal.hpp"

namespace memleax {

namespace {

constexpr std::array kFatalSignals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
/// Enough for the handler, which calls little. On its own stack: an overflow of the usual one is a
/// crash as well.
constexpr std::size_t kStackBytes = std::size_t{64} * 1024;
std::atomic<Watcher*> the_watcher{nullptr};
std::atomic<ProcessAccounts*> the_accounts{nullptr};
std::atomic<const CrashTerminal*> the_terminal{nullptr};

/// One that was sent to the process, and has met the tracer thread, which is the one that is to
/// stop.
bool is_for_another_thread(const siginfo_t& info) {
    const Watcher* watcher = the_watcher.load();
    return (info.si_code == SI_USER || info.si_code == SI_QUEUE) && watcher != nullptr &&
           watcher->is_tracer_thread();
}

void on_fatal_signal(int signal, siginfo_t* info, void* context) {
    // Any thread that gets another signal takes those of the process along, and this one gets some
    // hundred a second (ticks).
    if (is_for_another_thread(*info)) {
        sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);
        kill(getpid(), signal);
        return;
    }
    // The default action follows, when this returns to what crashed or when abort() goes on.
    struct sigaction fatal {};
    fatal.sa_handler = SIG_DFL;
    sigaction(signal, &fatal, nullptr);
    if (const CrashTerminal* terminal = the_terminal.exchange(nullptr)) {
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal->mode); // async-signal-safe, as write is
        [[maybe_unused]] const auto ignored =
            write(terminal->fd, terminal->farewell, std::strlen(terminal->farewell));
    }
    Watcher* watcher = the_watcher.exchange(nullptr);
    ProcessAccounts* accounts = the_accounts.exchange(nullptr);
    if (watcher != nullptr && accounts != nullptr) {
        accounts->abandon(); // whoever crashed may have held a tracker's lock
        watcher->stop_in_emergency();
    }
    raise(signal);
}

} // namespace

void set_crash_terminal(const CrashTerminal* terminal) {
    the_terminal.store(terminal);
}

EmergencyExit::EmergencyExit(Watcher& watcher, ProcessAccounts& accounts) {
    the_accounts.store(&accounts);
    the_watcher.store(&watcher);
    static std::array<char, kStackBytes> stack;
    stack_t alternate{};
    alternate.ss_sp = stack.data();
    alternate.ss_size = stack.size();
    sigaltstack(&alternate, nullptr);
    for (const int signal : kFatalSignals) {
        struct sigaction action {};
        action.sa_sigaction = on_fatal_signal;
        action.sa_flags = SA_ONSTACK | SA_SIGINFO;
        sigaction(signal, &action, nullptr);
    }
}

EmergencyExit::~EmergencyExit() {
    the_watcher.store(nullptr);
    the_accounts.store(nullptr);
}

} // namespace memleax
