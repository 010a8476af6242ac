// SPDX-License-Identifier: GPL-3.0-or-later
// --follow-forks: every process of a family is watched, counts exactly, and is left as it was
// found.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "leaks_support.hpp"
#include "share_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

using LeaksOf = std::map<std::int64_t, Leaks>; ///< by pid

/// The lines "process PID FUNCTION BLOCKS BYTES".
LeaksOf truth_of_processes(const FixtureAnswer& answer) {
    LeaksOf result;
    for (const std::string& line : answer.other) {
        std::istringstream words(line);
        std::string kind;
        std::string function;
        std::int64_t pid = 0;
        Leak leak;
        if (words >> kind >> pid >> function >> leak.blocks >> leak.bytes && kind == "process") {
            result[pid][function] = leak;
        }
    }
    return result;
}

LeaksOf leaks_of_processes(const nlohmann::json& report) {
    std::map<std::int64_t, nlohmann::json> stacks;
    for (const auto& stack : report.at("callstacks")) {
        stacks[stack.at("pid")].push_back(stack);
    }
    LeaksOf result;
    for (const auto& [pid, of_process] : stacks) {
        result[pid] = live_leaks({{"callstacks", of_process}});
    }
    return result;
}

const nlohmann::json& process_of(const nlohmann::json& report, std::int64_t pid) {
    static const nlohmann::json none;
    for (const auto& process : report.at("processes")) {
        if (process.at("pid") == pid) {
            return process;
        }
    }
    ADD_FAILURE() << "no process " << pid << " in the report";
    return none;
}

std::vector<std::string> following(pid_t pid) {
    return {"-f", "-F", "json", "-e", "1000", "--log", "info", std::to_string(pid)};
}

int repeats() {
    const char* count = std::getenv("MEMLEAX_STRESS_COUNT");
    return count != nullptr ? std::max(std::atoi(count), 1) : 2;
}

struct Way {
    std::string command;
    std::size_t children; ///< that tell their truth
    bool has_shells = false;
};
void PrintTo(const Way& way, std::ostream* out) {
    *out << way.command;
}

class FollowForks : public ::testing::TestWithParam<Way> {};

TEST_P(FollowForks, CountsOfEachProcessAreExact) {
    SCOPED_TRACE(fmt::format("MEMLEAX_STRESS_COUNT={} follow_forks_test --gtest_filter=*{}",
                             repeats(), GetParam().command));
    for (int i = 0; i < repeats() && !HasFailure(); ++i) {
        Fixture fixture("family");
        const TargetSnapshot before = take_snapshot(fixture.pid());
        Memleax memleax(following(fixture.pid()));
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.ask(GetParam().command);
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(answer.failures, IsEmpty());
        const auto report = result.json();

        LeaksOf truth = truth_of_processes(answer);
        ASSERT_EQ(truth.size(), GetParam().children);
        const LeaksOf found = leaks_of_processes(report);
        for (const auto& [pid, leaks] : truth) {
            const auto of_process = found.find(pid);
            ASSERT_NE(of_process, found.end()) << pid << '\n' << result.errors;
            EXPECT_EQ(of_process->second, leaks) << pid << '\n' << result.errors;
            const auto& process = process_of(report, pid);
            EXPECT_EQ(process.at("events").at("double_free"), 0);
            EXPECT_TRUE(process.contains("end_s"));
        }
        truth[fixture.pid()] = answer.truth;
        const auto own = found.find(fixture.pid());
        EXPECT_EQ(own != found.end() ? own->second : Leaks{}, answer.truth);
        if (!GetParam().has_shells) {
            EXPECT_EQ(report.at("processes").size(), truth.size());
        }
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
        EXPECT_EQ(fixture.quit(), 0);
    }
}

INSTANTIATE_TEST_SUITE_P(Ways, FollowForks,
                         ::testing::Values(Way{"fork", 1}, Way{"exec", 1}, Way{"vfork", 1},
                                           Way{"spawn", 1}, Way{"system", 1, true},
                                           Way{"popen", 1, true}, Way{"daemon", 2}, Way{"tree", 14},
                                           Way{"server", static_cast<std::size_t>(share_of(200))},
                                           Way{"orphan", 2}),
                         [](const auto& instance) { return instance.param.command; });

// A forked child frees what its parent had allocated: neither a leak nor a double free of anybody.
TEST(FollowForksReport, InheritedBlocksAreUnknown) {
    Fixture fixture("family");
    Memleax memleax(following(fixture.pid()));
    memleax.wait_until_watching();
    const LeaksOf truth = truth_of_processes(fixture.ask("fork"));
    const auto report = memleax.interrupt_and_finish().json();
    ASSERT_EQ(truth.size(), 1U);
    const auto& child = process_of(report, truth.begin()->first);
    EXPECT_EQ(child.at("parent_pid"), fixture.pid());
    EXPECT_EQ(child.at("comm"), "family");
    EXPECT_EQ(child.at("exit_status"), 0);
    EXPECT_EQ(child.at("events").at("unknown_free"), 3);
    EXPECT_EQ(child.at("events").at("alloc"), 14);
    EXPECT_EQ(child.at("events").at("free"), 7);
    const auto& parent = process_of(report, fixture.pid());
    EXPECT_FALSE(parent.contains("end_s"));
    EXPECT_EQ(parent.at("events").at("unknown_free"), 0);
    EXPECT_EQ(report.at("session").at("events").at("alloc"),
              14 + parent.at("events").at("alloc").get<int>());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(FollowForksReport, AKilledChildsCountsStay) {
    if (engine_under_test() == "inline") {
        GTEST_SKIP() << "what it recorded in the last milliseconds goes with its memory";
    }
    Fixture fixture("family");
    Memleax memleax(following(fixture.pid()));
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.ask("kill");
    EXPECT_THAT(answer.failures, IsEmpty());
    const auto report = memleax.interrupt_and_finish().json();
    const LeaksOf truth = truth_of_processes(answer);
    ASSERT_EQ(truth.size(), 1U);
    const std::int64_t pid = truth.begin()->first;
    EXPECT_EQ(process_of(report, pid).at("signal"), SIGKILL);
    const Leak found = leaks_of_processes(report).at(pid).at("child_leak");
    // One more may have been live just then.
    EXPECT_THAT(found.blocks, ::testing::AnyOf(9, 10));
    EXPECT_EQ(found.bytes, 9 * 103 + (found.blocks - 9));
    EXPECT_EQ(fixture.quit(), 0);
}

// Those that outlive us have the code that their parent had before we came, and go on.
TEST(FollowForksLeave, ChildrenAreLeftAsTheyWereBorn) {
    for (int i = 0; i < repeats() && !HasFailure(); ++i) {
        Fixture fixture("family");
        const TargetSnapshot before = take_snapshot(fixture.pid());
        Memleax memleax(following(fixture.pid()));
        memleax.wait_until_watching();
        std::vector<pid_t> children;
        fixture.process().send("outlive");
        while (children.size() < 3) {
            const auto line = fixture.process().read_line();
            ASSERT_TRUE(line);
            if (line->starts_with("process ")) {
                children.push_back(std::atoi(line->c_str() + 8));
            }
        }
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_EQ(result.json().at("processes").size(), 4U);
        for (const pid_t child : children) {
            const TargetSnapshot after = take_snapshot(child);
            EXPECT_EQ(code_of(before), code_of(after));
            for (const auto& [tid, thread] : after.threads) {
                EXPECT_EQ(thread.tracer, 0);
            }
        }
        fixture.process().send("open");
        std::optional<std::string> line;
        while ((line = fixture.process().read_line()) && *line != "count unwell 0") {
            EXPECT_THAT(*line, ::testing::Not(HasSubstr("unwell")));
        }
        EXPECT_TRUE(line);
        EXPECT_EQ(fixture.quit(), 0);
    }
}

// The end of the first process is not the end, but that of the last one is.
TEST(FollowForksLeave, EndsWithTheLastProcess) {
    Memleax memleax({"-f", "-F", "json", "-e", "1000", "--", fixture_path("family")});
    memleax.wait_until_watching();
    memleax.process().send("daemon");
    memleax.process().close_input();
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("\"end_reason\": \"target-exit\""));
    EXPECT_THAT(result.errors, HasSubstr("is watched, too"));
}

TEST(FollowForksReport, TextHasASectionForEachProcess) {
    Fixture fixture("family");
    Memleax memleax({"-f", "-e", "0.01", "-t", "2", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const LeaksOf truth = truth_of_processes(fixture.ask("exec"));
    ASSERT_EQ(truth.size(), 1U);
    const auto result = memleax.finish();
    EXPECT_THAT(result.output, HasSubstr(fmt::format("== Process {} (family, ", fixture.pid())));
    EXPECT_THAT(result.output,
                HasSubstr(fmt::format("== Process {} (family, ", truth.begin()->first)));
    EXPECT_THAT(result.output, HasSubstr("exit status 0"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(FollowForksPrompt, AProcessCanBeChosen) {
    Fixture fixture("family");
    Memleax memleax({"-f", "-i", "-q", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const LeaksOf truth = truth_of_processes(fixture.ask("fork"));
    ASSERT_EQ(truth.size(), 1U);
    for (const char* command : {"processes", "process 2", "dump all", "process 1", "process 3",
                                "pause", "resume", "processes"}) {
        memleax.process().send(command);
    }
    memleax.process().close_input();
    const auto result = memleax.finish();
    EXPECT_THAT(result.output,
                HasSubstr(fmt::format("Process 2 is {} (family, ", truth.begin()->first)));
    EXPECT_THAT(result.output, HasSubstr("child_leak"));
    EXPECT_THAT(result.errors, HasSubstr("there is no process 3"));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
