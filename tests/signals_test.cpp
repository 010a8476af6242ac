// SPDX-License-Identifier: GPL-3.0-or-later
// All the signals of a watched process arrive, and none is added (fixtures/signal_kinds.c counts).
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "process_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

TargetSnapshot snapshot_of(const Fixture& fixture) {
    return take_snapshot(fixture.pid(), {"receiver", "waiter"});
}

class SignalKinds : public ::testing::TestWithParam<bool> {
  protected:
    static std::vector<std::string> arguments(int queued) {
        std::vector<std::string> result{std::to_string(queued)};
        if (GetParam()) {
            result.emplace_back("blocked");
        }
        return result;
    }
};

TEST_P(SignalKinds, ArriveWhileWatched) {
    Fixture fixture("signal_kinds", arguments(share_of(10'000)));
    const TargetSnapshot before = snapshot_of(fixture);
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_THAT(differences(before, snapshot_of(fixture), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

/// While it works, memleax visits it so many times (without MEMLEAX_STRESS_COUNT) for up to so
/// long.
void come_and_go(Fixture* fixture, int visits, int most_milliseconds) {
    const TargetSnapshot before = snapshot_of(*fixture);
    fixture->process().send("spin");
    ASSERT_EQ(fixture->process().read_line(), "spinning");
    Stress stress(visits);
    std::string errors;
    while (stress.next()) {
        Memleax memleax({"-F", "json", "-t",
                         std::to_string(0.001 * stress.number_to(most_milliseconds)),
                         std::to_string(fixture->pid())});
        const auto result = memleax.finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        errors += result.errors;
    }
    EXPECT_THAT(fixture->ask("stop").failures, IsEmpty()) << errors;
    EXPECT_THAT(differences(before, snapshot_of(*fixture), Meanwhile::worked), IsEmpty()) << errors;
    EXPECT_EQ(fixture->quit(), 0);
}

TEST_P(SignalKinds, ArriveWhileWeComeAndGo) {
    Fixture fixture("signal_kinds", arguments(share_of(1000)));
    come_and_go(&fixture, 15, 60);
}

INSTANTIATE_TEST_SUITE_P(Traps, SignalKinds, ::testing::Bool(),
                         [](const auto& instance) { return instance.param ? "blocked" : "own"; });

// What a handler has interrupted is still in the allocator while the handler's own calls go by, and
// after them, also where no walk leads to it.
TEST(BusyHandler, IsLeftWhileWhatItHasInterruptedWaits) {
    for (const std::string stack : {"own", "alternate"}) {
        Fixture fixture("busy_handler", {"waits", stack});
        come_and_go(&fixture, 15, 600);
    }
}

// Who makes a call for us in the middle of a critical section has left it, as if by a signal.
TEST(RestartableSequence, IsAbortedWhenItsThreadIsBorrowed) {
    Fixture fixture("rseq_section");
    if (fixture.go().counts.at("sections") == 0) {
        GTEST_SKIP() << "the kernel or the C library has none";
    }
    come_and_go(&fixture, 15, 60);
}

/// A thread's mask is to be put back while it sleeps where no ptrace request reaches it.
class MaskOfAnUninterruptibleThread : public ::testing::Test {
  protected:
    void SetUp() override {
        if (const std::string first = fixture_.read_line().value_or("(the end)");
            first != "ready") {
            GTEST_SKIP() << first;
        }
        before_ = take_snapshot(fixture_.pid());
        memleax_.emplace(
            std::vector<std::string>{"-F", "json", "-e", "1000", std::to_string(fixture_.pid())});
        memleax_->wait_until_watching();
        ASSERT_THAT(mask_differences(), SizeIs(1)); // else there is nothing to be put back
        ask("sleep");
    }
    void TearDown() override {
        if (!IsSkipped()) {
            fixture_.send("quit");
            EXPECT_EQ(fixture_.wait_for_end(), 0);
        }
    }
    void ask(const char* command) {
        fixture_.send(command);
        EXPECT_THAT(read_answer(fixture_).failures, IsEmpty()) << command;
    }
    std::vector<std::string> mask_differences() {
        const auto now = take_snapshot(fixture_.pid());
        std::vector<std::string> result;
        for (const auto& [tid, thread] : before_.threads) {
            const auto mask_of = [](const TargetSnapshot::Thread& one) {
                return one.signals.substr(0, one.signals.find(" SigIgn"));
            };
            if (mask_of(now.threads.at(tid)) != mask_of(thread)) {
                result.push_back(mask_of(now.threads.at(tid)));
            }
        }
        return result;
    }
    /// How often memleax's threads have gone to sleep so far; 0 when it has ended.
    long sleeps() {
        constexpr std::string_view kKey = "\nvoluntary_ctxt_switches:";
        const Tid pid(memleax_->process().pid());
        long result = 0;
        const auto info = try_read_process_info(pid);
        for (const Tid tid : info && info->state != 'Z' ? list_threads(pid) : std::vector<Tid>()) {
            std::ifstream file(fmt::format("/proc/{}/task/{}/status", pid.value(), tid.value()));
            const std::string text(std::istreambuf_iterator<char>(file), {});
            const auto at = text.find(kKey);
            result += at == std::string::npos ? 0 : std::atol(text.c_str() + at + kKey.size());
        }
        return result;
    }

    ChildProcess fixture_{{fixture_path("uninterruptible")}};
    TargetSnapshot before_;
    std::optional<Memleax> memleax_;
};

TEST_F(MaskOfAnUninterruptibleThread, IsPutBackWhenItWakesUp) {
    constexpr long kLooks = 200;
    const long begun = sleeps();
    memleax_->interrupt();
    for (long now = begun; now != 0 && now < begun + kLooks; now = sleeps()) {
        std::this_thread::yield();
    }
    ask("wake");
    const auto result = memleax_->finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before_, take_snapshot(fixture_.pid()), Meanwhile::worked), IsEmpty())
        << result.errors;
}

TEST_F(MaskOfAnUninterruptibleThread, IsToldOfWhenItDoesNot) {
    const auto result = memleax_->interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("SIGTRAP, which it had blocked, stays unblocked"));
    ask("wake");
    EXPECT_THAT(mask_differences(), SizeIs(1));
}

// One that is raised at the same moment as a thread is borrowed for our system calls.
TEST(Exceptions, ArriveOnceWhileWeComeAndGo) {
    Fixture fixture("faulter");
    come_and_go(&fixture, 25, 20);
}

// SIGTRAP is blocked only until that handler returns: found blocked afterwards, it would make the
// process's next breakpoint of its own kill it.
class OwnTrapHandler : public ::testing::TestWithParam<std::string> {};

TEST_P(OwnTrapHandler, IsWhereTheProcessIsWhenWeCome) {
    Fixture fixture("own_trap");
    fixture.process().send(GetParam());
    ASSERT_EQ(fixture.process().read_line(), "in handler");
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.process().send("leave it");
    ASSERT_EQ(fixture.process().read_line(), "out");
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Trap, OwnTrapHandler,
                         ::testing::Values("stay", "stay step", "stay sent", "stay plain"),
                         [](const auto& instance) {
                             return instance.param == "stay"        ? "OfABreakpoint"
                                    : instance.param == "stay step" ? "OfAStep"
                                    : instance.param == "stay sent" ? "Sent"
                                                                    : "SentWithoutSiginfo";
                         });

// 100,000 of them.
TEST(QueuedSignals, KeepTheirNumberOrderAndPayloads) {
    Fixture fixture("signal_kinds", {std::to_string(share_of(100'000))});
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    EXPECT_EQ(fixture.quit(), 0);
}

class PendingSignals : public ::testing::TestWithParam<std::vector<std::string>> {};

TEST_P(PendingSignals, StayPending) {
    Fixture fixture("pending_signals", GetParam());
    EXPECT_THAT(fixture.go().failures, IsEmpty()); // its threads' arenas are there now
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Stress stress(5);
    while (stress.next()) {
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const FixtureAnswer answer = stress.number_to(3) > 1 ? fixture.go() : FixtureAnswer();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    }
    EXPECT_THAT(fixture.ask("take").failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Of, PendingSignals,
                         ::testing::Values(std::vector<std::string>{},
                                           std::vector<std::string>{"trap"}),
                         [](const auto& instance) {
                             return instance.param.empty() ? "AllKinds" : "SigtrapToo";
                         });

} // namespace
} // namespace memleax::testing
