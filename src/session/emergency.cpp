// SPDX-License-Identifier: GPL-3.0-or-later
#include "emergency.hpp"

#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <ctime>

#include <fcntl.h>
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

/// The first thread that has crashed: it leaves the target. Others wait for its end.
std::atomic<pid_t> the_leaver{0};
std::atomic<bool> the_main_waits{false};

[[noreturn]] void wait_for_the_end() {
    if (gettid() == getpid()) {
        the_main_waits.store(true);
    }
    for (;;) {
        pause();
    }
}

/// The default action follows, when the handler returns to what crashed or when abort() goes on.
void let_it_end_us(int signal) {
    struct sigaction fatal {};
    fatal.sa_handler = SIG_DFL;
    sigaction(signal, &fatal, nullptr);
    raise(signal);
}

/// Beside the thread that leaves, the main thread would go on: it would tell of the watch's end and
/// set the terminal's mode. It does not, from here on.
void hold_main_thread(int signal) {
    const pid_t main = getpid();
    if (gettid() == main || tgkill(main, main, signal) != 0) {
        return;
    }
    constexpr int kTries = 1000; // of a millisecond; it may be in the middle of a slow call
    for (int i = 0; i < kTries && !the_main_waits.load(); ++i) {
        const timespec pause{0, 1'000'000};
        nanosleep(&pause, nullptr);
    }
}

void on_fatal_signal(int signal, siginfo_t* info, void* context) {
    // One that was sent to the process is the main thread's. Any thread that gets another signal
    // takes it along, and two get some hundred a second: the tracer and the reader of signals.
    if ((info->si_code == SI_USER || info->si_code == SI_QUEUE) && gettid() != getpid()) {
        sigaddset(&static_cast<ucontext_t*>(context)->uc_sigmask, signal);
        kill(getpid(), signal);
        return;
    }
    pid_t leaver = 0;
    if (!the_leaver.compare_exchange_strong(leaver, gettid())) {
        const Watcher* watcher = the_watcher.load();
        // The guardian goes on where the tracer cannot; or abort() was called below.
        if (leaver == gettid() || (watcher != nullptr && watcher->is_tracer_thread())) {
            return let_it_end_us(signal);
        }
        wait_for_the_end();
    }
    hold_main_thread(signal);
    restore_crash_terminal();
    Watcher* watcher = the_watcher.load();
    ProcessAccounts* accounts = the_accounts.load();
    if (watcher != nullptr && accounts != nullptr) {
        accounts->abandon(); // whoever crashed may have held a tracker's lock
        watcher->stop_in_emergency();
    }
    let_it_end_us(signal);
}

} // namespace

void set_crash_terminal(const CrashTerminal* terminal) {
    the_terminal.store(terminal);
}

void restore_crash_terminal() {
    if (const CrashTerminal* terminal = the_terminal.exchange(nullptr)) {
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal->mode); // async-signal-safe, as the others are
        const int flags = fcntl(terminal->fd, F_GETFL);
        fcntl(terminal->fd, F_SETFL, flags | O_NONBLOCK); // it may stand still
        [[maybe_unused]] const auto ignored =
            write(terminal->fd, terminal->farewell, std::strlen(terminal->farewell));
        fcntl(terminal->fd, F_SETFL, flags);
    }
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
        // A crash of the handler itself ends the process: the kernel takes the default action of
        // one that is blocked.
        for (const int other : kFatalSignals) {
            sigaddset(&action.sa_mask, other);
        }
        sigaction(signal, &action, nullptr);
    }
}

EmergencyExit::~EmergencyExit() {
    the_watcher.store(nullptr);
    the_accounts.store(nullptr);
}

} // namespace memleax
