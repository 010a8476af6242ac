// SPDX-License-Identifier: GPL-3.0-or-later
// While leaving waits for a thread that is neither found asleep nor known to compute, nobody else
// stands still: who stood at a breakpoint when the code went back goes on.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/engine/leave/detacher.hpp"
#include "../src/engine/leave/own_unwinder.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/thread_borrower.hpp"

namespace memleax::testing {
namespace {

/// What the process and the test tell each other.
struct Shared {
    std::array<int, 2> begins;      ///< a pipe, by which the test tells the caller to begin
    std::atomic<int> caller;        ///< the thread that is to hit the breakpoint
    std::atomic<bool> has_returned; ///< from the watched function
    std::atomic<bool> was_traced;   ///< when it had
};

volatile unsigned watched_calls = 0;

[[gnu::noinline]] void watched() {
    watched_calls = watched_calls + 1;
}

bool is_traced() {
    std::ifstream status("/proc/thread-self/status");
    for (std::string line; std::getline(status, line);) {
        if (line.rfind("TracerPid:", 0) == 0) {
            return std::atoi(line.c_str() + line.find(':') + 1) != 0;
        }
    }
    return false;
}

/// Waits for the test, which writes a byte.
void call_watched(Shared& shared) {
    char byte = 0;
    shared.caller = gettid();
    EXPECT_EQ(read(shared.begins[0], &byte, 1), 1);
    watched();
    shared.was_traced = is_traced();
    shared.has_returned = true;
    pause();
}

void compute_until_it_has_returned(const Shared& shared) {
    while (!shared.has_returned) {
    }
    pause();
}

/// Beside another thread that computes on the same CPU it gets a thousandth of it: it runs, and
/// takes seconds until it has computed for the 5 ms that tell.
void be_starved(const Shared& shared) {
    constexpr int kThisThread = 0;
    cpu_set_t cpu;
    CPU_ZERO(&cpu);
    CPU_SET(sched_getcpu(), &cpu);
    ASSERT_EQ(sched_setaffinity(kThisThread, sizeof cpu, &cpu), 0);
    std::thread([&] { compute_until_it_has_returned(shared); }).detach(); // inherits the CPU
    const sched_param none{};
    ASSERT_EQ(sched_setscheduler(kThisThread, SCHED_IDLE, &none), 0);
    compute_until_it_has_returned(shared);
}

class Nobody final : public DetachObserver {
    void on_late_hit(Tid /*tid*/, const arch::Registers& /*regs*/,
                     const Breakpoint& /*breakpoint*/) override {}
    void on_thread_gone(const ThreadGone& /*gone*/) override {}
};

char state_of(Tid tid) {
    const auto info = try_read_process_info(tid);
    return info ? info->state : 'X';
}

/// Watches it until the caller is at the breakpoint, and leaves then.
void visit(pid_t pid, Shared& shared) {
    Tracer tracer(nullptr);
    auto target = Target::seize(tracer, Tid(pid));
    ASSERT_TRUE(target) << target.error().message();
    BreakpointTable breakpoints(**target);
    TrapSignal trap_signal(**target, breakpoints.handler());
    const auto worker = (*target)->borrower().borrow_thread();
    ASSERT_TRUE(worker) << worker.error().message();
    ASSERT_TRUE(trap_signal.install(*worker));
    const auto at = CodeAddr(reinterpret_cast<std::uint64_t>(&watched));
    ASSERT_TRUE(breakpoints.insert(at, *worker));
    while (const auto event = (*target)->next_event(Target::Wait::poll)) {
        (*target)->consume_stop(tid_of(*event));
        (*target)->resume(tid_of(*event));
    }
    if ((*target)->is_stopped(*worker)) {
        (*target)->resume(*worker);
    }
    ASSERT_EQ(write(shared.begins[1], "", 1), 1);
    while (state_of(Tid(shared.caller)) != 't') {
        poll(nullptr, 0, 1);
    }
    breakpoints.restore_all();
    Nobody nobody;
    OwnUnwinder unwinder(**target);
    Detacher(**target, breakpoints, trap_signal, nobody, false, [&]() -> Unwinder& {
        return unwinder.get();
    }).complete();
}

/// Of one process: was the one that stood at the breakpoint let go on before it was left?
bool goes_on_early() {
    void* memory =
        mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto& shared = *new (memory) Shared{};
    EXPECT_EQ(pipe(shared.begins.data()), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test be ended
        std::thread([&] { call_watched(shared); }).detach();
        be_starved(shared);
    }
    while (shared.caller == 0) {
        poll(nullptr, 0, 1);
    }
    std::thread([&] { visit(pid, shared); }).join();
    while (!shared.has_returned) {
        poll(nullptr, 0, 1);
    }
    const bool result = shared.was_traced;
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    close(shared.begins[0]);
    close(shared.begins[1]);
    munmap(memory, sizeof(Shared));
    return result;
}

TEST(Detacher, NobodyStandsStillForTheSakeOfAThreadThatWaitsForACpu) {
    EXPECT_TRUE(goes_on_early()) << "it stood still until the process was left";
}

} // namespace
} // namespace memleax::testing
