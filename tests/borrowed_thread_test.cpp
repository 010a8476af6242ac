// SPDX-License-Identifier: GPL-3.0-or-later
// The guardian gives a thread back that the dead one had borrowed; also if it has its own registers
// again by then, and is somewhere of its own.
#include <csignal>
#include <optional>
#include <thread>

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../src/engine/leave/borrowed_thread.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/target.hpp"

namespace memleax::testing {
namespace {

[[noreturn]] void make_children() {
    for (;;) {
        if (const pid_t child = vfork(); child == 0) { // NOLINT: what it is about
            _exit(0);
        } else {
            waitpid(child, nullptr, 0);
        }
    }
}

/// Until it stands in vfork, and the child that this waits for is held.
bool run_into_vfork(Target& target) {
    const Tid pid = target.pid();
    std::optional<StopEvent> child;
    for (;;) {
        const auto event = target.next_event(Target::Wait::block);
        if (!event) {
            return false;
        }
        if (std::holds_alternative<ChildStop>(*event)) {
            child = event;
        } else if (tid_of(*event) == pid && !target.threads().at(pid).in_vfork) {
            target.resume(pid);
        }
        if (child && target.is_stopped(pid) && target.threads().at(pid).in_vfork) {
            target.defer(*child);
            return true;
        }
    }
}

class BorrowedThread : public ::testing::TestWithParam<long> {};

// The end of that vfork would never come, as the child is held.
TEST_P(BorrowedThread, ThatIsInAVforkOfItsOwnIsNotWaitedFor) {
    const pid_t pid = fork();
    if (pid == 0) {
        make_children();
    }
    std::thread([pid] {
        Tracer tracer(nullptr);
        const auto record = RecoveryFile::private_record();
        auto target = Target::seize(tracer, Tid(pid), record);
        ASSERT_TRUE(target) << target.error().message();
        ASSERT_TRUE(run_into_vfork(**target));
        record->borrowed.number = GetParam();
        record->borrowed.tid.store(pid);
        EXPECT_EQ(return_borrowed_thread(**target), Tid(pid));
        EXPECT_EQ(record->borrowed.tid.load(), 0);
        EXPECT_TRUE((*target)->is_stopped(Tid(pid)));
    }).join();
    kill(pid, SIGKILL);
    EXPECT_EQ(waitpid(pid, nullptr, 0), pid);
}

INSTANTIATE_TEST_SUITE_P(Calls, BorrowedThread, ::testing::Values(SYS_munmap, SYS_clone),
                         [](const auto& instance) {
                             return instance.param == SYS_clone ? "Clone" : "Munmap";
                         });

} // namespace
} // namespace memleax::testing
