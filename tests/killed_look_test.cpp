// SPDX-License-Identifier: GPL-3.0-or-later
// memleax is killed with SIGKILL at a random moment of a look at the heap: while it attaches,
// stops, copies, computes or reports, with --leak-check alone and by the prompt's `leaks`. The
// target works on, is as it was, and has no child more. (killed_leak_check_test kills at each
// call.)
//
// More than 500 kills: MEMLEAX_STRESS_COUNT=30 killed_look_test --gtest_filter='*Alone*'
#include <algorithm>
#include <chrono>
#include <climits>
#include <csignal>
#include <functional>
#include <iostream>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "process_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

struct Kind {
    const char* name;
    std::function<std::unique_ptr<Worker>()> make;
};
void PrintTo(const Kind& kind, std::ostream* out) {
    *out << kind.name;
}

std::function<std::unique_ptr<Worker>()>
fixture(const char* program, std::vector<std::string> arguments = {}, bool sleeps = false) {
    CommandLine command{{fixture_path(program)}};
    command.words.insert(command.words.end(), arguments.begin(), arguments.end());
    return [command, sleeps] { return std::make_unique<SpeakingWorker>(command, sleeps); };
}

using Clock = std::chrono::steady_clock;

int us_since(Clock::time_point begin) {
    return static_cast<int>(
        std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin).count());
}

class KilledLook : public ::testing::TestWithParam<Kind> {
  protected:
    /// Starts a look again and again, and kills it. `finish` ends one that nobody kills.
    void check(const std::function<std::unique_ptr<Memleax>(pid_t)>& start,
               const std::function<void(Memleax&)>& finish) {
        const auto worker = GetParam().make();
        // Where it is hit is random, and this is no wait for anything.
        int most_us = INT_MAX;
        for (int i = 0; i < 3; ++i) {
            worker->start_working();
            const auto begin = Clock::now();
            const auto whole = start(worker->pid());
            finish(*whole);
            // 1: it was incomplete, as threads were in malloc each time.
            ASSERT_TRUE(WIFEXITED(whole->finish().status));
            most_us = std::min(most_us, us_since(begin));
            worker->stop_working();
        }
        TargetSnapshot before = take_snapshot(worker->pid());
        const std::set<pid_t> children = children_of(worker->pid());
        int kills = 0;
        int kept_pages = 0;
        while (stress_.next()) {
            worker->start_working();
            const auto memleax = start(worker->pid());
            const int delay_us = stress_.number_to(most_us);
            usleep(static_cast<useconds_t>(delay_us));
            memleax->process().signal(SIGKILL);
            const auto result = memleax->finish(); // and its guardian, if it has one
            SCOPED_TRACE(fmt::format("{} of {} us: {}", delay_us, most_us, result.errors));
            kills += result.status == SIGKILL ? 1 : 0;
            ASSERT_NO_THROW(worker->stop_working());
            const TargetSnapshot after = take_snapshot(worker->pid());
            EXPECT_THAT(unlike_their_files(after), IsEmpty());
            if (result.errors.find("such pages stay mapped, and do no harm") != std::string::npos) {
                ++kept_pages; // something on a stack looks like a way back to them
                before = after;
            }
            EXPECT_THAT(differences(before, after, Meanwhile::worked), IsEmpty());
            EXPECT_EQ(children_of(worker->pid()), children);
        }
        worker->end();
        std::cout << fmt::format("{} kills of {} within {} us; pages were kept {} times\n", kills,
                                 GetParam().name, most_us, kept_pages);
    }

    Stress stress_{4};
};

TEST_P(KilledLook, Alone) {
    check(
        [](pid_t pid) {
            return std::make_unique<Memleax>(
                std::vector<std::string>{"--leak-check", std::to_string(pid)});
        },
        [](Memleax& memleax) { memleax.process().read_line(); });
}

// The copy of the target that it has then goes with it, and is reaped.
TEST_P(KilledLook, AloneWithACopyOfTheTarget) {
    check(
        [](pid_t pid) {
            return std::make_unique<Memleax>(std::vector<std::string>{"--leak-check", "--snapshot",
                                                                      "fork", std::to_string(pid)});
        },
        [](Memleax& memleax) { memleax.process().read_line(); });
}

/// From the command on; the end of the watching belongs to it.
std::function<std::unique_ptr<Memleax>(pid_t)> prompt_with(const char* way) {
    return [way](pid_t pid) {
        auto memleax = std::make_unique<Memleax>(
            std::vector<std::string>{"-q", "-i", "--snapshot", way, std::to_string(pid)});
        memleax->wait_until_watching();
        memleax->process().send("leaks");
        return memleax;
    };
}

TEST_P(KilledLook, OfThePrompt) {
    check(prompt_with("copy"), [](Memleax& memleax) { memleax.process().send("quit"); });
}

TEST_P(KilledLook, OfThePromptWithACopyOfTheTarget) {
    check(prompt_with("fork"), [](Memleax& memleax) { memleax.process().send("quit"); });
}

INSTANTIATE_TEST_SUITE_P(
    Targets, KilledLook,
    // Who leaks without a pause has gigabytes soon, and a look at that takes ten seconds.
    ::testing::Values(Kind{"one_thread", fixture("churner")},
                      Kind{"in_malloc", [] { return std::make_unique<RacingWorker>(16); }},
                      Kind{"many_threads", fixture("survivor")},
                      Kind{"asleep", fixture("sleeper", {"nanosleep"}, true)},
                      Kind{"waits_for_events", fixture("sleeper", {"poll"}, true)},
                      // It grows by each look, and is soon large enough to be forked by default.
                      Kind{"many_blocks", fixture("big_live", {"40000"}, true)},
                      Kind{"forks", fixture("forker", {"3", "100000", "dirty"})}),
    [](const auto& instance) { return instance.param.name; });

} // namespace
} // namespace memleax::testing
