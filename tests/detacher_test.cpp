// SPDX-License-Identifier: GPL-3.0-or-later
// Leaving, the code being the target's own again: who stands still for whom, and what keeps our
// pages mapped.
#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/engine/leave/detacher.hpp"
#include "../src/engine/leave/own_unwinder.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "memleax/target/thread_signals.hpp"

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

/// Arms it, has it do something, and leaves; by a thread that ends then.
template <typename Work> void visit(pid_t pid, bool may_be_referenced, Work work) {
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
    work(**target, breakpoints);
    breakpoints.restore_all();
    Nobody nobody;
    OwnUnwinder unwinder(**target);
    Detacher(**target, breakpoints, trap_signal, nobody, may_be_referenced, [&]() -> Unwinder& {
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
    const auto until_it_is_hit = [&shared](Target& /*target*/, BreakpointTable& /*breakpoints*/) {
        EXPECT_EQ(write(shared.begins[1], "", 1), 1);
        while (state_of(Tid(shared.caller)) != 't') {
            poll(nullptr, 0, 1);
        }
    };
    std::thread([&] { visit(pid, false, until_it_is_hit); }).join();
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

// ---- What keeps pages mapped --------------------------------------------------------------------

/// What a handler's frame has in it, from the word on by which the handler returns.
using Frame = std::array<std::byte, arch::kSignalFrameReturnWord + arch::kSignalFrameReadBytes>;
Frame frame_of_handler;

void keep_frame(int /*signal*/, siginfo_t* info, void* /*context*/) {
    const auto* begin = reinterpret_cast<const std::byte*>(info) - arch::kSignalFrameInfoOffset -
                        arch::kSignalFrameReturnWord;
    std::copy_n(begin, frame_of_handler.size(), frame_of_handler.begin());
}

/// What it tells the test, and is told.
struct Naps {
    std::array<int, 2> pages; ///< a pipe, by which each napper is told where our page is
    std::atomic<unsigned> begun;
    std::atomic<unsigned> have_frame;
};
constexpr unsigned kNappers = 8;

/// Has on its stack what a signal handler has left there that returned to a page of ours, and wakes
/// up all the time.
void nap(Naps& naps) {
    ++naps.begun;
    std::uint64_t pc = 0;
    EXPECT_EQ(read(naps.pages[0], &pc, sizeof pc), ssize_t{sizeof pc});
    Frame old = frame_of_handler;
    std::memcpy(&old[arch::kSignalFrameReturnWord + arch::kSignalFramePcOffset], &pc, sizeof pc);
    ++naps.have_frame;
    for (;;) {
        asm volatile("" ::"r"(old.data()) : "memory"); // it stays there
        usleep(1);
    }
}

/// Of one process: is our page gone after a visit?
bool gives_page_back() {
    void* memory =
        mmap(nullptr, sizeof(Naps), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    auto& naps = *new (memory) Naps{};
    EXPECT_EQ(pipe(naps.pages.data()), 0);
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test be ended
        struct sigaction action {};
        action.sa_sigaction = keep_frame;
        action.sa_flags = SA_SIGINFO;
        sigaction(SIGUSR1, &action, nullptr);
        raise(SIGUSR1);
        for (unsigned i = 0; i < kNappers; ++i) {
            std::thread([&] { nap(naps); }).detach();
        }
        for (;;) {
            pause();
        }
    }
    while (naps.begun != kNappers) {
        poll(nullptr, 0, 1);
    }
    std::uint64_t page = 0;
    const auto until_all_have_frame = [&naps, &page](Target& /*target*/,
                                                     BreakpointTable& breakpoints) {
        page = breakpoints.handler().ranges().at(0).begin;
        for (unsigned i = 0; i < kNappers; ++i) {
            EXPECT_EQ(write(naps.pages[1], &page, sizeof page), ssize_t{sizeof page});
        }
        while (naps.have_frame != kNappers) {
            poll(nullptr, 0, 1);
        }
    };
    std::thread([&] { visit(pid, true, until_all_have_frame); }).join();
    const auto maps = read_maps(Tid(pid));
    EXPECT_TRUE(maps);
    const bool result = maps && std::none_of(maps->begin(), maps->end(), [page](const Mapping& m) {
                            return m.range.contains(page);
                        });
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    close(naps.pages[0]);
    close(naps.pages[1]);
    munmap(memory, sizeof(Naps));
    return result;
}

// A sleeper that has been seen outside of our pages may have woken up when they are about to go.
// Its registers are not known any more then, so that nobody can tell that frame from one in use.
TEST(Detacher, WhatWasLeftOnASleepersStackKeepsNoPage) {
    constexpr int kVisits = 20;
    for (int i = 0; i < kVisits && !HasFailure(); ++i) {
        EXPECT_TRUE(gives_page_back()) << "visit " << i;
    }
}

// ---- Signals for which there is no room ---------------------------------------------------------

/// What a process with two sleepers tells of its handlers.
struct Handled {
    std::atomic<int> second; ///< its second thread
    std::atomic<bool> urgent;
    std::atomic<bool> late;
};
Handled* handled;

void note_urgent(int /*signal*/) {
    handled->urgent = true;
}
void note_late(int /*signal*/) {
    handled->late = true;
}

[[noreturn]] void have_two_sleepers() {
    prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test be ended
    (void)signal(SIGUSR1, note_urgent);
    (void)signal(SIGRTMIN, note_late);
    std::array<int, 2> never{};
    EXPECT_EQ(pipe(never.data()), 0);
    std::thread([&never] { // this one is borrowed: a stop costs it nothing
        char byte = 0;
        handled->second = gettid();
        EXPECT_EQ(read(never[0], &byte, 1), 1);
    })
        .detach();
    const int epoll = epoll_create1(0);
    for (;;) {
        epoll_event event{};
        constexpr int kForEver = -1;
        (void)epoll_wait(epoll, &event, 1, kForEver);
    }
}

bool await(const std::atomic<bool>& what, int ms) {
    for (int i = 0; i < ms && !what; ++i) {
        poll(nullptr, 0, 1);
    }
    return what;
}

void limit_pending(pid_t pid, rlim_t most) {
    rlimit limit{};
    EXPECT_EQ(prlimit(pid, RLIMIT_SIGPENDING, nullptr, &limit), 0);
    limit.rlim_cur = std::min(most, limit.rlim_max);
    EXPECT_EQ(prlimit(pid, RLIMIT_SIGPENDING, &limit, nullptr), 0);
}

/// Has the thread that is borrowed as we leave the signal that was held back, or the other one?
class DetacherWithoutRoom : public ::testing::TestWithParam<bool> {};

// While room for a signal that was held back is waited for, sleepers are still traced. One that a
// signal wakes stood in its stop for two seconds; for seven, if it was the borrowed one's.
TEST_P(DetacherWithoutRoom, NoSleeperStandsInAStop) {
    void* memory =
        mmap(nullptr, sizeof(Handled), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    handled = new (memory) Handled{};
    const pid_t pid = fork();
    if (pid == 0) {
        have_two_sleepers();
    }
    while (handled->second == 0 || state_of(Tid(pid)) != 'S' ||
           state_of(Tid(handled->second)) != 'S') {
        poll(nullptr, 0, 1);
    }
    std::atomic<bool> begins_to_leave = false;
    std::atomic<bool> has_left = false;
    std::thread visitor([&] {
        visit(pid, false, [&](Target& target, BreakpointTable& /*breakpoints*/) {
            const pid_t tid = GetParam() ? handled->second.load() : pid;
            ASSERT_EQ(tgkill(pid, tid, SIGRTMIN), 0);
            ASSERT_TRUE(target.next_event(Target::Wait::block));
            ASSERT_TRUE(target.signals().hold(Tid(tid)));
            target.resume(Tid(tid));
            limit_pending(pid, 0);
            begins_to_leave = true;
        });
        has_left = true;
    });
    constexpr int kLongMs = 60'000;
    constexpr int kUntilItWaitsMs = 200; // of the two seconds
    constexpr int kUntilItHasLeftMs = 3000;
    EXPECT_TRUE(await(begins_to_leave, kLongMs));
    poll(nullptr, 0, kUntilItWaitsMs);
    EXPECT_FALSE(handled->late);
    for (const pid_t tid : {pid, handled->second.load()}) {
        handled->urgent = false;
        EXPECT_EQ(tgkill(pid, tid, SIGUSR1), 0);
        EXPECT_TRUE(await(handled->urgent, kUntilItHasLeftMs)) << "thread " << tid - pid;
        EXPECT_FALSE(has_left) << "thread " << tid - pid;
    }
    limit_pending(pid, RLIM_INFINITY);
    visitor.join();
    EXPECT_TRUE(await(handled->late, kLongMs));
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
    munmap(memory, sizeof(Handled));
}

INSTANTIATE_TEST_SUITE_P(Holders, DetacherWithoutRoom, ::testing::Bool(), [](const auto& row) {
    return std::string(row.param ? "borrowed" : "other");
});

} // namespace
} // namespace memleax::testing
