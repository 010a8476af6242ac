// SPDX-License-Identifier: GPL-3.0-or-later
// What a target notices of a watch, and what is left of it: nothing.
#include <algorithm>
#include <csignal>
#include <cstdint>
#include <random>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "leaks_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

Memleax attach_to(pid_t pid) {
    return Memleax({"-F", "json", "-e", "1000", std::to_string(pid)});
}

class LeftAsFound : public ::testing::TestWithParam<std::string> {};

// Nothing happens in the target, so each line of its maps must be the same.
TEST_P(LeftAsFound, AnIdleTargetIsUntouched) {
    Fixture fixture(GetParam());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    for (int i = 0; i < 3; ++i) {
        Memleax memleax = attach_to(fixture.pid());
        memleax.wait_until_watching();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(live_leaks(result.json()), IsEmpty());
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    }
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, LeftAsFound,
                         ::testing::Values("alloc_all-O2-nofp-pie", "alloc_all-O0-fp-nopie",
                                           "threads16", "signals"),
                         [](const auto& instance) {
                             std::string name = instance.param;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

struct SpinCase {
    std::string fixture;
    std::vector<std::string> arguments{};
    std::string name() const {
        std::string result = fixture;
        for (const std::string& argument : arguments) {
            result += "_" + argument;
        }
        std::replace(result.begin(), result.end(), '-', '_');
        return result;
    }
};
void PrintTo(const SpinCase& spin_case, std::ostream* out) {
    *out << spin_case.name();
}

/// Mappings and who traces. A thread at work blocks and unblocks signals as it likes.
TargetSnapshot snapshot_at_work(pid_t pid) {
    TargetSnapshot snapshot = take_snapshot(pid);
    for (auto& [tid, thread] : snapshot.threads) {
        thread.signals.clear();
    }
    return snapshot;
}

class Spinning : public ::testing::TestWithParam<SpinCase> {
  protected:
    /// One visit; the number of allocations that it saw.
    std::uint64_t visit(pid_t pid, int number, bool until_it_has_seen_some) {
        enum { at_once, in_the_midst_of_arming, after_a_moment, after_a_while, kinds };
        const int kind = until_it_has_seen_some ? after_a_while : number % kinds;
        std::vector<std::string> arguments{"-F", "json", "--log", "debug"};
        const double moment = std::uniform_real_distribution(0.001, 0.03)(random_);
        if (kind == after_a_moment || kind == after_a_while) {
            // 0.1 s, or longer on a slow machine
            const double a_while = (until_it_has_seen_some ? 1000.0 : 100.0) / share_of(1000);
            arguments.insert(
                arguments.end(),
                {"-t", fmt::format("{:.4f}", kind == after_a_while ? a_while : moment)});
        }
        arguments.push_back(std::to_string(pid));
        Memleax memleax(arguments);
        if (kind == in_the_midst_of_arming) {
            EXPECT_TRUE(memleax.process().find_error_line("breakpoint at"));
        } else {
            memleax.wait_until_watching();
        }
        const bool by_user = kind == at_once || kind == in_the_midst_of_arming;
        const auto result = by_user ? memleax.interrupt_and_finish() : memleax.finish();
        last_errors_ = result.errors;
        if (kind == in_the_midst_of_arming && WEXITSTATUS(result.status) == 1) {
            EXPECT_THAT(result.errors, HasSubstr("interrupted before the watching began"));
            return 0;
        }
        EXPECT_EQ(result.status, 0) << result.errors;
        const auto session = result.json().at("session");
        EXPECT_EQ(session.at("end_reason"), by_user ? "user" : "time");
        return session.at("events").at("alloc").get<std::uint64_t>();
    }

    /// What the last visit printed to stderr.
    [[nodiscard]] const std::string& last_errors() const { return last_errors_; }

  private:
    std::string last_errors_;
    std::minstd_rand random_;
};

// Comes and goes, at any moment, while the target allocates on all its threads. What it checks
// itself (its own blocks, lost signals, clean children) holds all the time, and each time that
// memleax has gone the code is as it was.
TEST_P(Spinning, ComesAndGoesWhileTheTargetWorks) {
    constexpr int kVisits = 52;
    const int visits = share_of(kVisits);
    Fixture fixture(GetParam().fixture, GetParam().arguments);
    // fixtures/forker.c has a timer.
    const TargetSnapshot before = take_snapshot_unblocked(fixture.pid(), SIGALRM);
    const TargetSnapshot before_work = snapshot_at_work(fixture.pid());
    fixture.process().send("spin");
    ASSERT_EQ(fixture.process().read_line(), "spinning");
    std::uint64_t seen = 0;
    // Further ones if no allocation happened to come in so few.
    for (int i = 0; (i < visits || (seen == 0 && i < 2 * kVisits)) && !HasFailure(); ++i) {
        seen += visit(fixture.pid(), i, i >= visits);
        EXPECT_THAT(differences(before_work, snapshot_at_work(fixture.pid()), Meanwhile::worked),
                    IsEmpty())
            << last_errors();
    }
    EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
    EXPECT_GT(seen, 0U);
    EXPECT_THAT(
        differences(before, take_snapshot_unblocked(fixture.pid(), SIGALRM), Meanwhile::worked),
        IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, Spinning,
                         ::testing::Values(SpinCase{"alloc_all_cxx-O2-nofp-pie"},
                                           SpinCase{"threads16"}, SpinCase{"mixed_work"},
                                           SpinCase{"cross_thread_free"}, SpinCase{"thread_churn"},
                                           SpinCase{"signals"}, SpinCase{"forker"},
                                           SpinCase{"forker", {"16", "1000"}},
                                           SpinCase{"longjmp_exceptions"}),
                         [](const auto& instance) { return instance.param.name(); });

// Threads that sleep in read, futex, epoll_wait, accept, nanosleep and others sleep through it.
TEST(BlockedSyscalls, NobodyIsWoken) {
    Fixture fixture("blocked_syscalls");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    for (int i = 1; i <= 3; ++i) {
        Memleax memleax = attach_to(fixture.pid());
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.ask("allocate");
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(answer.failures, IsEmpty());
        EXPECT_EQ(live_leaks(result.json()), (Leaks{{"block_beside_sleepers", {1, 123}}}));
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
    }
    const FixtureAnswer woken = fixture.go();
    EXPECT_THAT(woken.failures, IsEmpty());
    EXPECT_THAT(woken.counts, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
