// SPDX-License-Identifier: GPL-3.0-or-later
// --leak-check: exactly what a fixture has lost, in no time of its own, and the target as it was.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <tuple>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/report/report_writer.hpp"
#include "process_support.hpp"
#include "snapshot_support.hpp"
#include "stress_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Memleax::Result check(pid_t pid, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments{"--leak-check", "-F", "json"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    arguments.push_back(std::to_string(pid));
    return Memleax(arguments).finish();
}

int exit_status(const Memleax::Result& result) {
    return WIFEXITED(result.status) ? WEXITSTATUS(result.status) : -1;
}

class LeakCheck : public ::testing::Test {};

/// A fixture, and how the picture of it is taken.
using Snapshot = std::tuple<const char*, const char*>;
class LeakCheckBySnapshot : public LeakCheck, public ::testing::WithParamInterface<Snapshot> {
  protected:
    const char* fixture() const { return std::get<0>(GetParam()); }
    std::vector<std::string> way() const { return {"--snapshot", std::get<1>(GetParam())}; }
};

std::string test_name(const ::testing::TestParamInfo<Snapshot>& info) {
    std::string name = fmt::format("{}_{}", std::get<0>(info.param), std::get<1>(info.param));
    std::replace(name.begin(), name.end(), '-', '_');
    return name;
}

class LeakCheckOfLostBlocks : public LeakCheckBySnapshot {};

TEST_P(LeakCheckOfLostBlocks, EachIsInItsClassAndTheTargetIsAsItWas) {
    if (!is_built(this->fixture())) {
        GTEST_SKIP() << this->fixture() << " could not be built here";
    }
    Fixture fixture(this->fixture());
    const auto first = check(fixture.pid(), way());
    ASSERT_EQ(exit_status(first), 0) << first.errors;
    const Leaks before = classes_of(first.json());
    EXPECT_EQ(before.at("definite"), Leak{}) << first.output;
    const FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    const TargetSnapshot untouched = take_snapshot(fixture.pid());
    for (int i = 0; i < 3; ++i) {
        const auto result = check(fixture.pid(), way());
        EXPECT_EQ(exit_status(result), 0) << result.errors;
        EXPECT_THAT(result.errors, Not(HasSubstr("is not forked")));
        EXPECT_EQ(difference(classes_of(result.json()), before), answer.truth) << result.output;
        EXPECT_THAT(differences(untouched, take_snapshot(fixture.pid()), Meanwhile::idle),
                    IsEmpty());
    }
    EXPECT_EQ(exit_status(check(fixture.pid(), {"--error-exitcode", "9"})), 9);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Linked, LeakCheckOfLostBlocks,
    ::testing::Combine(::testing::Values("lost_blocks", "lost_blocks-static",
                                         "lost_blocks-static-pie", "lost_blocks-static-stripped",
                                         "musl-lost_blocks", "musl-lost_blocks-stripped",
                                         "musl-dynamic-lost_blocks"),
                       ::testing::Values("auto", "copy", "fork")),
    test_name);

// Where pointers to the same addresses have been before.
class LeakCheckOfReusedMemory : public LeakCheckBySnapshot {};

TEST_P(LeakCheckOfReusedMemory, EachIsInItsClass) {
    if (!is_built(this->fixture())) {
        GTEST_SKIP() << this->fixture() << " could not be built here";
    }
    Fixture fixture(this->fixture(), {"reused"});
    const Leaks before = classes_of(check(fixture.pid(), way()).json());
    EXPECT_EQ(before.at("definite"), Leak{});
    const FixtureAnswer answer = fixture.go();
    const auto result = check(fixture.pid(), way());
    EXPECT_EQ(exit_status(result), 0) << result.errors;
    EXPECT_EQ(difference(classes_of(result.json()), before), answer.truth) << result.output;
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Fixtures, LeakCheckOfReusedMemory,
                         ::testing::Combine(::testing::Values("lost_blocks", "musl-lost_blocks",
                                                              "musl-dynamic-lost_blocks"),
                                            ::testing::Values("auto", "copy", "fork")),
                         test_name);

/// What its round has added is in the classes that it says.
void expect_the_truth_of(const std::string& program, const std::vector<std::string>& arguments = {},
                         const std::vector<std::string>& way = {}) {
    Fixture fixture(program, arguments);
    const Leaks before = classes_of(check(fixture.pid(), way).json());
    const FixtureAnswer answer = fixture.go();
    const auto result = check(fixture.pid(), way);
    EXPECT_EQ(exit_status(result), 0) << result.errors;
    EXPECT_EQ(difference(classes_of(result.json()), before), answer.truth) << result.output;
    EXPECT_EQ(fixture.quit(), 0);
}

// Most share arenas; each has a cache, a control block and blocks of its own.
TEST_F(LeakCheck, OfAThousandThreads) {
    expect_the_truth_of("lost_blocks", {"threads", "1000"});
}

// memcheck's own cases; the fixture says which class its manual has for each. The last four are
// possibly lost there, too, with --leak-check-heuristics=none. By default it guesses that an
// interior pointer is one to an array's first object, a base, or a text behind its length, and
// calls them reachable. We do not guess: neither class is called lost.
class LeakCheckOfMemchecksCases : public LeakCheckBySnapshot {};

TEST_P(LeakCheckOfMemchecksCases, AreInTheSameClasses) {
    expect_the_truth_of("leak_cases", {fixture()}, way());
}

INSTANTIATE_TEST_SUITE_P(
    Cases, LeakCheckOfMemchecksCases,
    ::testing::Combine(::testing::Values("chain_1", "chain_2", "chain_3", "chain_4", "chain_5",
                                         "chain_6", "chain_7", "chain_8", "chain_9", "cycles",
                                         "trees", "of_no_bytes", "unreadable_page",
                                         "array_of_objects", "second_base", "behind_the_length",
                                         "shared_text", "behind_a_header"),
                       ::testing::Values("auto", "copy", "fork")),
    test_name);

TEST_F(LeakCheck, SaysWhatPossiblyLostBlocksHaveInCommon) {
    Fixture fixture("leak_cases", {"behind_a_header"});
    const auto before = check(fixture.pid()).json().at("leak_check").at("possible");
    EXPECT_FALSE(before.contains("common_offset")) << before;
    EXPECT_LT(before.at("blocks"), 40) << "texts of libstdc++'s older kind: not one of ten";
    fixture.go();
    for (const char* way : {"copy", "fork"}) {
        const auto result = check(fixture.pid(), {"--snapshot", way});
        EXPECT_EQ(result.json().at("leak_check").at("possible").at("common_offset"),
                  (nlohmann::json{{"offset", 32}, {"blocks", 400}}));
    }
    EXPECT_EQ(fixture.quit(), 0);
}

// So many that the dynamic linker has several segments for what dlopen has loaded. It keeps
// pointers to cache lines within their blocks.
TEST_F(LeakCheck, OfManyModulesTheLinkersOwnBlocksAreReachable) {
    Fixture fixture("many_modules", {"90"});
    fixture.go();
    const auto result = check(fixture.pid());
    EXPECT_EQ(exit_status(result), 0) << result.errors;
    Leaks classes = classes_of(result.json());
    classes.erase("reachable");
    EXPECT_EQ(classes, (Leaks{{"definite", {}}, {"indirect", {}}, {"possible", {}}}))
        << result.output;
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(LeakCheck, ABlockIsInTheClassThatItsPointerGivesItNow) {
    Fixture fixture("leak_cases", {"moving"});
    const Leaks before = classes_of(check(fixture.pid()).json());
    for (int i = 0; i < 6; ++i) {
        const FixtureAnswer answer = fixture.go();
        const auto result = check(fixture.pid());
        EXPECT_EQ(exit_status(result), 0) << result.errors;
        EXPECT_EQ(difference(classes_of(result.json()), before), answer.truth) << result.output;
    }
    EXPECT_EQ(fixture.quit(), 0);
}

nlohmann::json named(const nlohmann::json& counts, const std::string& name) {
    for (const auto& count : counts) {
        if (count.at("name") == name) {
            return count;
        }
    }
    return {};
}

TEST_F(LeakCheck, TypesAndHoldersOfAProcessThatNobodyHasWatched) {
    constexpr const char* kSessions = "shop::g_sessions, held_blocks.cpp";
    Fixture fixture("held_blocks");
    FixtureAnswer answer;
    for (int i = 0; i < 20; ++i) {
        answer = fixture.go();
    }
    const auto result = check(fixture.pid());
    ASSERT_EQ(exit_status(result), 0) << result.errors;
    const auto found = result.json().at("leak_check");
    // Each answer has the truth of all rounds.
    const Leak sessions = answer.truth.at("shop::open_session");
    EXPECT_EQ(named(found.at("types"), "shop::Session"),
              (nlohmann::json{{"name", "shop::Session"},
                              {"blocks", sessions.blocks},
                              {"bytes", sessions.bytes}}));
    EXPECT_EQ(named(found.at("holders"), kSessions),
              (nlohmann::json{
                  {"name", kSessions}, {"blocks", sessions.blocks}, {"bytes", sessions.bytes}}));
    EXPECT_EQ(found.at("definite").at("blocks"), answer.truth.at("shop::lose_block").blocks);
    const auto& records = found.at("records");
    const auto record = std::find_if(records.begin(), records.end(), [](const auto& each) {
        return each.value("type", "") == "shop::Session";
    });
    ASSERT_NE(record, records.end());
    EXPECT_EQ(record->at("class"), "reachable");
    ASSERT_EQ(record->at("holders").size(), 1U);
    EXPECT_EQ(record->at("holders")[0],
              (nlohmann::json{{"name", kSessions}, {"blocks", sessions.blocks}}));
    const auto text = Memleax({"--leak-check", std::to_string(fixture.pid())}).finish().output;
    EXPECT_THAT(text, HasSubstr(fmt::format("{:>9}  shop::Session\n", sessions.blocks)));
    EXPECT_THAT(text, HasSubstr(fmt::format("{:>9}  {}\n", sessions.blocks, kSessions)));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(LeakCheck, AThreadsCacheMayBeInALargerChunk) {
    Fixture fixture("odd_cache");
    EXPECT_EQ(classes_of(check(fixture.pid()).json()).at("definite"), Leak{});
    EXPECT_EQ(fixture.quit(), 0);
}

// The empty bins, 16 of 127, are too few to know the main arena by.
TEST_F(LeakCheck, AHeapWithFreeChunksOfMostSizes) {
    expect_the_truth_of("full_bins");
}

TEST_F(LeakCheck, ThreadsThatHaveEndedHoldNothing) {
    expect_the_truth_of("ended_threads");
}

// In one mapping with the stack of the thread, which is further in than the coroutine's.
TEST_F(LeakCheck, WhatAThreadHoldsThatIsInACoroutineIsNotLost) {
    Fixture fixture("coroutine_heap");
    if (fixture.go().counts.at("joined") == 0) {
        GTEST_SKIP() << "this kernel does not join the two";
    }
    const auto result = check(fixture.pid());
    EXPECT_EQ(exit_status(result), 0) << result.errors;
    const Leaks classes = classes_of(result.json());
    EXPECT_EQ(classes.at("definite"), Leak{}) << result.output;
    EXPECT_EQ(classes.at("possible"), Leak{}) << result.output;
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(LeakCheck, AProcessThatHasNeverCalledMalloc) {
    Fixture fixture("sleeper", {"nanosleep"});
    const auto result = check(fixture.pid());
    EXPECT_EQ(exit_status(result), 0) << result.errors;
    for (const auto& [name, leak] : classes_of(result.json())) {
        EXPECT_EQ(leak, Leak{}) << name;
    }
    EXPECT_THAT(fixture.go().failures, IsEmpty()); // it calls it
    EXPECT_EQ(classes_of(check(fixture.pid()).json()).at("reachable").blocks, 1);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(LeakCheck, TextHasTheSame) {
    Fixture fixture("lost_blocks");
    const FixtureAnswer answer = fixture.go();
    const auto result = Memleax({"--leak-check", std::to_string(fixture.pid())}).finish();
    EXPECT_EQ(exit_status(result), 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("definitely lost: 3 blocks of 328 bytes at 0x"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(LeakCheck, HtmlHasTheSame) {
    if (find_report_format("html")->write == nullptr) {
        GTEST_SKIP() << "this build is without html";
    }
    Fixture fixture("lost_blocks");
    const FixtureAnswer answer = fixture.go();
    const Leaks classes = classes_of(check(fixture.pid()).json());
    const auto result =
        Memleax({"--leak-check", "-F", "html", std::to_string(fixture.pid())}).finish();
    EXPECT_EQ(exit_status(result), 0) << result.errors;
    const std::uint64_t lost = classes.at("definite").blocks + classes.at("indirect").blocks;
    EXPECT_THAT(result.output, HasSubstr(fmt::format(" in {} blocks are lost: nothing", lost)));
    EXPECT_THAT(result.output,
                HasSubstr(fmt::format(R"("totals":[{},{},{},{},)", classes.at("definite").blocks,
                                      classes.at("definite").bytes, classes.at("indirect").blocks,
                                      classes.at("indirect").bytes)));
    EXPECT_THAT(result.output, HasSubstr("\"holders\":["));
    EXPECT_EQ(fixture.quit(), 0);
}

struct Race {
    std::string fixture;
    int looks;
    std::vector<std::string> arguments = {"16"};
};
void PrintTo(const Race& race, std::ostream* out) {
    *out << race.fixture;
}

// Nothing is lost there, whatever a thread has in its hands at that moment. A look at 16 threads
// takes a second or two, as they use all CPUs, and 12 s at a load of 25. 200 looks:
// MEMLEAX_STRESS_COUNT=20.
class LeakCheckOfThreadsInMalloc : public LeakCheck, public ::testing::WithParamInterface<Race> {};

TEST_P(LeakCheckOfThreadsInMalloc, NoBlockIsLost) {
    if (!is_built(GetParam().fixture)) {
        GTEST_SKIP() << GetParam().fixture << " could not be built here";
    }
    Fixture fixture(GetParam().fixture, GetParam().arguments);
    int complete = 0;
    int looks = 0;
    // Where others need the CPUs, a thread may not come out of malloc while the process stands
    // still.
    constexpr int kMostLooks = 20;
    for (Stress stress(GetParam().looks); stress.next() || (complete == 0 && looks < kMostLooks);
         ++looks) {
        const auto result = check(fixture.pid());
        if (GetParam().fixture.starts_with("musl") &&
            result.errors.find("cannot be stopped without harm") != std::string::npos) {
            EXPECT_EQ(exit_status(result), 1);
            EXPECT_EQ(result.output, "");
            continue;
        }
        ASSERT_NE(result.output, "") << result.errors;
        const auto found = result.json().at("leak_check");
        if (!found.at("complete")) {
            EXPECT_EQ(exit_status(result), 1);
            EXPECT_FALSE(found.contains("definite")) << "nothing may be said";
            continue;
        }
        ++complete;
        EXPECT_EQ(found.at("definite").at("blocks"), 0) << result.output;
        EXPECT_EQ(found.at("indirect").at("blocks"), 0) << result.output;
    }
    EXPECT_GT(complete, 0);
    EXPECT_EQ(fixture.quit(), 0);
    std::cout << fmt::format("{} of {} looks were complete\n", complete, looks);
}

// musl's malloc has one lock, and makes a system call every few calls: threads that do nothing else
// are hardly ever found outside of it (docs/limits.md).
INSTANTIATE_TEST_SUITE_P(Linked, LeakCheckOfThreadsInMalloc,
                         ::testing::Values(Race{"malloc_race", 10}, Race{"malloc_race-static", 3},
                                           Race{"malloc_race-static-stripped", 3},
                                           Race{"musl-malloc_race", 5, {"3", "10000"}},
                                           Race{"musl-dynamic-malloc_race", 5, {"3", "10000"}}),
                         [](const auto& instance) {
                             std::string name = instance.param.fixture;
                             std::replace(name.begin(), name.end(), '-', '_');
                             return name;
                         });

void expect_refusal(pid_t pid, const std::string& why) {
    const auto result = check(pid);
    EXPECT_EQ(exit_status(result), 1);
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(result.errors, HasSubstr(why));
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
}

TEST_F(LeakCheck, NoSuchProcess) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    expect_refusal(child, "no such process");
}

TEST_F(LeakCheck, AStoppedProcessStaysStopped) {
    Fixture fixture("lost_blocks");
    fixture.process().signal(SIGSTOP);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(fixture.pid()), &info, WSTOPPED | WNOWAIT), 0);
    expect_refusal(fixture.pid(), "it is stopped by a signal");
    EXPECT_EQ(try_read_process_info(Tid(fixture.pid()))->state, 'T');
    fixture.process().signal(SIGCONT);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(LeakCheck, AnotherUsersProcess) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root can become another user";
    }
    Fixture fixture("lost_blocks");
    ChildProcess other(
        unprivileged({{MEMLEAX_PROGRAM, "--leak-check", std::to_string(fixture.pid())}}).words);
    const int status = other.wait_for_end();
    if (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127) {
        GTEST_SKIP() << "the program's folder is not open to others: " << other.errors();
    }
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_THAT(other.errors(), HasSubstr("it belongs to user id 0"));
    EXPECT_EQ(fixture.quit(), 0);
}

class LeakCheckOfAnotherAllocator : public LeakCheck,
                                    public ::testing::WithParamInterface<const char*> {};

TEST_P(LeakCheckOfAnotherAllocator, IsRefusedInOneLine) {
    const std::string library = std::string("/usr/lib/x86_64-linux-gnu/") + GetParam();
    if (access(library.c_str(), R_OK) != 0) {
        GTEST_SKIP() << "there is no " << library;
    }
    Fixture fixture("malloc_race", {}, {{"LD_PRELOAD", library}});
    const std::string file = std::filesystem::canonical(library);
    expect_refusal(fixture.pid(), "malloc is neither glibc's nor musl's, but that of ");
    expect_refusal(fixture.pid(), file);
    expect_refusal(fixture.pid(), "; memleax -t SECONDS --leak-check PID classes what is allocated "
                                  "meanwhile");
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Preloaded, LeakCheckOfAnotherAllocator,
                         ::testing::Values("libjemalloc.so.2", "libtcmalloc.so.4",
                                           "libtcmalloc_minimal.so.4", "libmimalloc.so.2"),
                         [](const auto& instance) {
                             std::string name = instance.param;
                             return name.substr(3, name.find('.') - 3);
                         });

TEST_F(LeakCheck, AStaticProgramWithoutAnyMallocThatWeKnow) {
    ChildProcess target({fixture_path("no_allocator")});
    ASSERT_TRUE(target.read_line()); // it runs
    expect_refusal(target.pid(), "is linked statically, and its malloc is neither that of glibc");
    target.signal(SIGKILL);
    target.wait_for_end();
}

} // namespace
} // namespace memleax::testing
