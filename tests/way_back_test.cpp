// SPDX-License-Identifier: GPL-3.0-or-later
// Who dies while a thread makes a system call for them, without a page of theirs for it: the
// thread gets its registers and its mask back by itself, in the process and in a forked copy.
#include <array>
#include <atomic>
#include <csignal>
#include <cstdint>
#include <ostream>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/target/remote_memory.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/trap_handler.hpp"
#include "memleax/target/way_back.hpp"

namespace memleax::testing {
namespace {

/// Shared by the processes.
struct Shared {
    std::atomic<pid_t> worker{0}; ///< the thread that computes
    std::atomic<bool> may_end{false};
};

std::uint64_t mask_of_signals() {
    std::uint64_t mask = ~std::uint64_t{0};
    syscall(SYS_rt_sigprocmask, SIG_SETMASK, nullptr, &mask, sizeof mask);
    return mask;
}

/// Ends the process well if nothing has happened to it.
void compute(Shared& shared, std::uint64_t mask) {
    std::uint64_t steps = 0;
    volatile std::uint64_t same = 0;
    shared.worker = static_cast<pid_t>(syscall(SYS_gettid));
    while (!shared.may_end) {
        ++steps;
        same = same + 1;
    }
    _exit(steps == same && mask_of_signals() == mask ? 0 : 1);
}

[[noreturn]] void be_target(Shared& shared, bool has_threads) {
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    // One that stays where it is, with all signals blocked, is ended by this.
    const rlimit seconds{10, 10};
    setrlimit(RLIMIT_CPU, &seconds);
    const std::uint64_t mask = mask_of_signals();
    if (has_threads) {
        std::thread(compute, std::ref(shared), mask).join();
    }
    compute(shared, mask);
    _exit(1);
}

struct Case {
    const char* name;
    bool has_threads;
    bool is_copy;
};
void PrintTo(const Case& each, std::ostream* out) {
    *out << each.name;
}

/// Has the thread kill it.
[[noreturn]] void be_tracer(pid_t pid, const Shared& shared, bool is_copy) {
    while (shared.worker == 0) {
    }
    const Tid worker(shared.worker);
    Tracer tracer(nullptr);
    auto target = Target::seize(tracer, Tid(pid));
    auto memory = RemoteMemory::open(Tid(pid));
    if (target && memory && (*target)->stop_and_defer(worker)) {
        const auto self = static_cast<std::uint64_t>(getpid());
        (void)(is_copy ? (*target)->system_call_in_copy(worker, *memory, SYS_kill, {self, SIGKILL})
                       : (*target)->system_call(worker, SYS_kill, {self, SIGKILL}));
    }
    _exit(1);
}

class WayBackTest : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        void* memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
        ASSERT_NE(memory, MAP_FAILED);
        shared_ = new (memory) Shared;
    }
    void TearDown() override { munmap(shared_, sizeof(Shared)); }

    Shared* shared_ = nullptr;
};

TEST_P(WayBackTest, IsFoundByTheThreadAlone) {
    const pid_t pid = fork();
    if (pid == 0) {
        be_target(*shared_, GetParam().has_threads);
    }
    const pid_t tracer = fork();
    if (tracer == 0) {
        be_tracer(pid, *shared_, GetParam().is_copy);
    }
    int status = 0;
    EXPECT_EQ(waitpid(tracer, &status, 0), tracer);
    EXPECT_EQ(status, SIGKILL);
    shared_->may_end = true;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, 0);
}

INSTANTIATE_TEST_SUITE_P(Threads, WayBackTest,
                         ::testing::Values(Case{"First", false, false},
                                           Case{"FirstOfACopy", false, true},
                                           Case{"Other", true, false},
                                           Case{"OtherOfACopy", true, true}),
                         [](const auto& instance) { return instance.param.name; });

pid_t fork_sleeper() {
    const pid_t pid = fork();
    if (pid == 0) {
        const rlimit no_core{0, 0};
        setrlimit(RLIMIT_CORE, &no_core);
        for (;;) {
            pause();
        }
    }
    return pid;
}

// A call's arguments lay in the last bytes of the frame where the stack was not aligned: a forked
// child got what a signal frame ends with for SIGTRAP's handler.
TEST(WayBackBelowTheStack, LeavesRoomForArguments) {
    const pid_t pid = fork_sleeper();
    std::thread([pid] {
        const Tid tid(pid);
        Tracer tracer(nullptr);
        auto target = Target::seize(tracer, tid);
        auto memory = RemoteMemory::open(tid);
        ASSERT_TRUE(target && memory && (*target)->stop_and_defer(tid));
        const StoppedThread thread(tid);
        arch::Registers own{};
        ASSERT_TRUE(thread.get_registers(&own));
        const RemoteAddr sp = arch::sp(own);
        const std::size_t size = arch::return_frame(own, 0, thread.vector_registers(), {}).size();
        for (std::int64_t i = 0; i < 128; ++i) {
            arch::set_sp(own, sp - i);
            auto way_back = WayBack::below_stack(*memory, tid, own);
            ASSERT_TRUE(way_back);
            arch::Registers for_call = own;
            way_back->set_stack_pointer(for_call);
            const RemoteAddr arguments = WayBack::argument_place(own);
            EXPECT_LE(arch::sp(for_call).value() + size, arguments.value()) << i;
            EXPECT_LE(arguments + WayBack::kArgumentBytes, sp - i - arch::kRedZone) << i;
            way_back->give_back_memory();
        }
    }).join();
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

// A child had got the page before its process was given leave to write there, and was ended by
// SIGSEGV as it was let go of.
TEST(WayBackInThePage, IsNotTakenWhereTheProcessMayNotWrite) {
    const pid_t pid = fork_sleeper();
    std::thread([pid] {
        const Tid tid(pid);
        Tracer tracer(nullptr);
        auto target = Target::seize(tracer, tid);
        auto copy = RemoteMemory::open(tid); // is dealt with as a forked child's
        ASSERT_TRUE(target && copy && (*target)->stop_and_defer(tid));
        TrapHandler handler(**target);
        ASSERT_TRUE(handler.map(tid));
        const auto expect_made = [&] {
            const std::array calls{RemoteCall{SYS_getpid, {}}, RemoteCall{SYS_getppid, {}}};
            const auto results = (*target)->system_calls_in_copy(tid, *copy, calls);
            ASSERT_TRUE(results) << results.error().message();
            EXPECT_EQ(*results, (std::vector<long>{pid, getpid()}));
            EXPECT_EQ((*target)->stop_signal(tid), 0);
        };
        expect_made();
        // As it is between the first two calls by which it comes to be there.
        const RemoteAddr data(handler.ranges()[0].begin + arch::kWayBackDataAt);
        const auto made = (*target)->system_call(
            tid, SYS_mprotect, {data.value(), arch::kWayBackDataBytes, PROT_READ | PROT_EXEC});
        ASSERT_TRUE(made && *made == 0);
        ASSERT_TRUE(copy->write_object(data + std::int64_t{arch::kWritableAt}, std::uint8_t{0}));
        expect_made();
    }).join();
    kill(pid, SIGKILL);
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    EXPECT_EQ(status, SIGKILL);
}

} // namespace
} // namespace memleax::testing
