// SPDX-License-Identifier: GPL-3.0-or-later
// One system call that moves megabytes, and is half way when memleax comes, and when it goes, by
// itself or by SIGKILL: it returns when all has been moved, and not before.
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memleax/engine/recovery.hpp"
#include "memleax/proc/process_info.hpp"
#include "process_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kWaits = "waiting for its end";

class Transfer : public ::testing::TestWithParam<const char*> {
  protected:
    /// False if the kernel refuses the call.
    bool start(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), {fixture_path("transfers"), GetParam()});
        fixture_.emplace(arguments);
        const std::string first = fixture_->read_line().value_or("(the end)");
        EXPECT_TRUE(first == "ready" || first.starts_with("skip")) << first;
        before_ = take_snapshot(fixture_->pid());
        return first == "ready";
    }
    std::vector<std::string> watch_it() const {
        return {"-F", "json", "-e", "1000", std::to_string(fixture_->pid())};
    }
    void ask(const char* command) {
        fixture_->send(command);
        EXPECT_THAT(read_answer(*fixture_).failures, IsEmpty()) << command;
    }
    /// memleax, and the guardian after it, have ended.
    void expect_as_before() const {
        EXPECT_THAT(differences(before_, take_snapshot(fixture_->pid()), Meanwhile::worked),
                    IsEmpty());
    }
    /// When memleax goes, or is killed, the code is put right at once, and the rest when the call
    /// has ended.
    void expect_wait_for_its_end(Memleax& memleax, bool killed) {
        ask("begin");
        if (killed) {
            memleax.process().signal(SIGKILL);
        } else {
            memleax.interrupt();
        }
        EXPECT_TRUE(memleax.process().find_error_line(kWaits));
        ask("move");
        ask("go");
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, killed ? SIGKILL : 0) << result.errors;
        expect_as_before();
    }
    void finish() {
        fixture_->send("quit");
        EXPECT_EQ(fixture_->wait_for_end(), 0);
    }

    std::optional<ChildProcess> fixture_;
    TargetSnapshot before_;
};

TEST_P(Transfer, GoesOnWhereAnotherThreadCanBeStopped) {
    if (!start({"beside"})) {
        GTEST_SKIP() << fixture_->output();
    }
    for (int visit = 0; visit < share_of(6) + 1 && !HasFailure(); ++visit) {
        ask("begin");
        Memleax memleax(watch_it());
        memleax.wait_until_watching();
        ask("move");
        const bool killed = visit % 2 == 1;
        if (killed) {
            memleax.process().signal(SIGKILL);
        }
        const auto result = killed ? memleax.finish() : memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, killed ? SIGKILL : 0) << result.errors;
        EXPECT_THAT(result.errors, Not(HasSubstr(kWaits)));
        ask("move");
        ask("go");
        expect_as_before();
    }
    finish();
}

// memleax waits for the end of the call: before it touches anything when it comes, and with the
// code put right already when it goes.
TEST_P(Transfer, IsWaitedForWhereThereIsNoOtherThread) {
    if (!start({})) {
        GTEST_SKIP() << fixture_->output();
    }
    for (const bool killed : {false, true}) {
        ask("begin");
        Memleax memleax(watch_it());
        EXPECT_TRUE(memleax.process().find_error_line(kWaits));
        ask("move");
        ask("go");
        memleax.wait_until_watching();
        expect_wait_for_its_end(memleax, killed);
    }
    finish();
}

TEST_P(Transfer, AnAttachThatIsBrokenOffWhileItWaitsSaysSo) {
    if (!start({})) {
        GTEST_SKIP() << fixture_->output();
    }
    ask("begin");
    Memleax memleax(watch_it());
    EXPECT_TRUE(memleax.process().find_error_line(kWaits));
    memleax.interrupt();
    const auto result = memleax.finish();
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.errors, AllOf(HasSubstr("of which memleax did not await the end"),
                                     Not(HasSubstr("try again"))));
    ask("move");
    ask("go");
    expect_as_before();
    finish();
}

// Such a thread's SIGTRAP is unblocked while it is watched, and it is stopped to put that back.
TEST_P(Transfer, IsWaitedForInAThreadThatBlocksSignals) {
    if (!start({"beside", "blocking"})) {
        GTEST_SKIP() << fixture_->output();
    }
    for (const bool killed : {false, true}) {
        Memleax memleax(watch_it());
        memleax.wait_until_watching();
        expect_wait_for_its_end(memleax, killed);
    }
    finish();
}

// memleax has died before it could give a thread its mask back, and that has gone on meanwhile:
// what the guardian does then.
TEST_P(Transfer, IsWaitedForBeforeAMaskIsPutBack) {
    if (!start({"beside", "blocking"})) {
        GTEST_SKIP() << fixture_->output();
    }
    ask("begin");
    const Tid tid(fixture_->pid());
    const auto info = [tid] { return try_read_process_info(tid).value_or(ProcessInfo()); };
    const auto record = RecoveryFile::private_record();
    record->pid.store(tid.value());
    record->start_time = info().start_time;
    record->borrowed.mask = kExceptionSignals; // and the one in force blocks all
    record->borrowed.tid_of_mask.store(tid.value());
    Result<void> restored;
    std::thread guardian([&] { restored = restore_process(record); });
    while (info().tracer.value() == 0) {
        std::this_thread::yield();
    }
    ask("move");
    ask("go");
    guardian.join();
    EXPECT_TRUE(restored) << restored.error().message();
    EXPECT_EQ(info().blocked_signals, kExceptionSignals);
    EXPECT_EQ(info().tracer.value(), 0);
    finish();
}

INSTANTIATE_TEST_SUITE_P(Calls, Transfer,
                         ::testing::Values("write", "write_socket", "write_terminal", "writev",
                                           "pwritev2", "send", "sendmsg", "sendmmsg", "sendfile",
                                           "splice", "recv", "recvmsg", "recvmmsg"),
                         [](const auto& instance) { return std::string(instance.param); });

/// That never ends, as far as memleax is concerned.
class EndlessTransfer : public Transfer {};

TEST_P(EndlessTransfer, IsLeftAlone) {
    ASSERT_TRUE(start({}));
    ask("begin");
    Memleax in_vain(watch_it());
    const auto result = in_vain.finish();
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr("try again when that is over"));
    ask("go");
    expect_as_before();
    finish();
}

// What is left is harmless, and is told.
TEST_P(EndlessTransfer, KeepsOurPagesWhenWeGo) {
    ASSERT_TRUE(start({}));
    Memleax memleax(watch_it());
    memleax.wait_until_watching();
    ask("begin");
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr("pages of ours stay mapped"));
    ask("move");
    ask("go");
    const TargetSnapshot left = take_snapshot(fixture_->pid());
    Memleax again(watch_it());
    again.wait_until_watching();
    EXPECT_EQ(again.interrupt_and_finish().status, 0);
    EXPECT_THAT(differences(left, take_snapshot(fixture_->pid()), Meanwhile::worked), IsEmpty());
    finish();
}

INSTANTIATE_TEST_SUITE_P(Calls, EndlessTransfer, ::testing::Values("write"));

} // namespace
} // namespace memleax::testing
