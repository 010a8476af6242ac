// SPDX-License-Identifier: GPL-3.0-or-later
// Code that was generated at run time has its names from /tmp/perf-PID.map, if that is to be
// believed. What it allocates cannot be followed, is counted, and is never an error.
#include <algorithm>
#include <filesystem>
#include <regex>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "container_support.hpp"
#include "leaks_support.hpp"
#include "memleax/proc/perf_map.hpp"
#include "memleax/proc/pid_namespace.hpp"
#include "prompt_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// Adds memleax's errors to `*errors`.
nlohmann::json watch_round(Fixture& fixture, pid_t pid, std::string* errors) {
    const TargetSnapshot before = take_snapshot(pid);
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(pid)});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(pid), Meanwhile::worked), IsEmpty());
    const auto report = result.json();
    EXPECT_EQ(live_leaks(report), answer.truth);
    *errors = result.errors;
    return report;
}

/// "function module", of each frame that is in no file.
std::vector<std::string> generated_frames(const nlohmann::json& report) {
    std::vector<std::string> frames;
    for (const auto& stack : report.at("callstacks")) {
        for (const auto& frame : stack.at("frames")) {
            const std::string module = frame.value("module", "");
            if (module.empty() || module.starts_with("perf-")) {
                frames.push_back(frame.value("function", "") + " " + module);
            }
        }
    }
    return frames;
}

void expect_names(const nlohmann::json& report, int pid) {
    const std::string file = fmt::format("perf-{}.map", pid);
    EXPECT_THAT(generated_frames(report),
                ::testing::UnorderedElementsAre("Compiled:first a.js:7 " + file,
                                                "Compiled:second " + file));
}

TEST(GeneratedCode, HasTheNamesOfThePerfMap) {
    Fixture fixture("generated_code");
    std::string errors;
    expect_names(watch_round(fixture, fixture.pid(), &errors), fixture.pid());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(GeneratedCode, InAContainerItsNumberThereCounts) {
    const Container container{
        {"--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"}};
    if (const std::string reason = why_not(container); !reason.empty()) {
        GTEST_SKIP() << reason;
    }
    ContainedFixture target("generated_code", container);
    std::string errors;
    expect_names(watch_round(target.fixture(), target.pid(), &errors), target.inner_pid());
    EXPECT_EQ(target.fixture().quit(), 0);
}

TEST(GeneratedCode, AnotherUsersMapIsNotBelieved) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "giving files away needs root";
    }
    Fixture fixture("generated_code");
    const std::string path = fmt::format("/tmp/perf-{}.map", fixture.pid());
    ASSERT_EQ(chown(path.c_str(), 12345, 12345), 0);
    std::string errors;
    const auto report = watch_round(fixture, fixture.pid(), &errors);
    EXPECT_THAT(generated_frames(report), ::testing::ElementsAre(" ", " "));
    EXPECT_THAT(errors, HasSubstr(path + " belongs to user 12345"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(GeneratedCode, AFifoInItsPlaceIsNotOpened) {
    Fixture fixture("generated_code");
    const std::string path = fmt::format("/tmp/perf-{}.map", fixture.pid());
    ASSERT_EQ(unlink(path.c_str()), 0);
    ASSERT_EQ(mkfifo(path.c_str(), 0644), 0);
    std::string errors;
    const auto report = watch_round(fixture, fixture.pid(), &errors);
    EXPECT_THAT(generated_frames(report), ::testing::ElementsAre(" ", " "));
    EXPECT_EQ(fixture.quit(), 0);
}

// A compiler's next page is looked for, also where it is not the allocator's own caller; not at
// each call, so that the first ones may not have it.
TEST(GeneratedCode, CallsKnownCodeFromANewPage) {
    constexpr int kRounds = 50;
    Fixture fixture("generated_code", {"grown"});
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    FixtureAnswer answer;
    for (int i = 0; i < kRounds; ++i) {
        answer = fixture.go();
    }
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = result.json();
    EXPECT_EQ(live_leaks(report), answer.truth);
    std::vector<std::string> functions; // of the stack that goes furthest
    for (const auto& stack : report.at("callstacks")) {
        if (stack.at("frames").size() > functions.size()) {
            functions.clear();
            for (const auto& frame : stack.at("frames")) {
                functions.push_back(frame.value("function", ""));
            }
        }
    }
    EXPECT_THAT(functions, ::testing::IsSupersetOf({"leaking", "work_by_grown_code", "main"}));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(GeneratedCode, EndsTheStackWhereTheFramePointerIsNone) {
    Fixture fixture("generated_code", {"frameless"});
    std::string errors;
    watch_round(fixture, fixture.pid(), &errors);
    EXPECT_EQ(fixture.quit(), 0);
}

/// The inline engine needs no breakpoint where a call returns to.
bool follows_all() {
    return engine_under_test() == "inline";
}

/// From status, "calls 7 of allocator functions, 5 of them with a stop".
std::string stopped_calls(const std::string& status) {
    std::smatch match;
    return std::regex_search(status, match, std::regex("([0-9]+) of them with a stop"))
               ? match[1].str()
               : "";
}

// Neither is a reason to stop, once such an end has been seen.
TEST(GeneratedCode, EndsOfStacksAreLearnt) {
    if (!follows_all()) {
        GTEST_SKIP() << "each call stops";
    }
    Fixture fixture("generated_code", {"frameless"});
    PromptOnTerminal prompt(fixture.pid(), {});
    std::string status;
    do { // the first calls may come before the jumps are there
        fixture.go();
        status = prompt.run("status");
    } while (status.find("1 new threads") == std::string::npos);
    std::string before;
    do {
        before = stopped_calls(status);
        fixture.go();
        status = prompt.run("status");
        ASSERT_NE(stopped_calls(status), "") << status;
    } while (stopped_calls(status) != before);
    EXPECT_EQ(prompt.quit(), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

struct Made {
    std::string kind; ///< of memory that the code is in
    bool is_known;    ///< it was there when memleax came
    bool check = false;
};
void PrintTo(const Made& made, std::ostream* out) {
    *out << made.kind;
}

class GeneratedCalls : public ::testing::TestWithParam<Made> {
  protected:
    static std::vector<std::string> options() {
        std::vector<std::string> all{"-F", "json", "-e", "1000"};
        if (GetParam().check) {
            all.emplace_back("--check");
        }
        return all;
    }
};

/// What was counted in `both`, and not in `first` already.
FixtureAnswer since(const FixtureAnswer& first, FixtureAnswer both) {
    for (const auto& [function, leak] : first.truth) {
        both.truth[function].blocks -= leak.blocks;
        both.truth[function].bytes -= leak.bytes;
    }
    for (const auto& [name, number] : first.counts) {
        both.counts[name] -= number;
    }
    return both;
}

void expect_all_followed(const nlohmann::json& report) {
    const auto& events = report.at("session").at("events");
    EXPECT_EQ(events.at("unfollowed_alloc"), 0);
    EXPECT_EQ(events.at("unknown_free"), 0);
    EXPECT_EQ(events.at("double_free"), 0);
}

void expect_unfollowed(const nlohmann::json& report, const FixtureAnswer& answer) {
    const auto& events = report.at("session").at("events");
    EXPECT_EQ(events.at("unfollowed_alloc"), answer.counts.at("unfollowed"));
    EXPECT_EQ(events.at("unknown_free"), answer.counts.at("unfollowed"));
    std::int64_t calls = 0;
    std::int64_t bytes = 0;
    for (const auto& stack : report.at("unfollowed")) {
        calls += stack.at("calls").get<std::int64_t>();
        bytes += stack.at("bytes").get<std::int64_t>();
        EXPECT_EQ(stack.at("reason"), "generated_code");
        const auto& frames = stack.at("frames");
        ASSERT_GE(frames.size(), 2U);
        EXPECT_FALSE(frames[1].contains("function")) << frames[1];
        // By the frame pointer, to code with tables.
        EXPECT_TRUE(std::any_of(frames.begin(), frames.end(), [](const auto& frame) {
            return frame.value("function", "").starts_with("allocate_by_code");
        })) << stack;
    }
    EXPECT_EQ(calls, answer.counts.at("unfollowed"));
    EXPECT_EQ(bytes, answer.counts.at("unfollowed_bytes"));
}

TEST_P(GeneratedCalls, AreCountedAndNoErrors) {
    Fixture fixture("generated_code", {GetParam().kind});
    const FixtureAnswer before = GetParam().is_known ? fixture.go() : FixtureAnswer();
    std::vector<std::string> arguments = options();
    arguments.push_back(std::to_string(fixture.pid()));
    Memleax memleax(arguments);
    memleax.wait_until_watching();
    const FixtureAnswer answer = since(before, fixture.go());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = result.json();
    expect_truth(report, answer);
    if (follows_all()) {
        expect_all_followed(report);
        // Its frames have no tables, which alone is no reason to stop.
        const auto& why = report.at("session").at("calls").at("why");
        EXPECT_FALSE(why.contains("irregular_stack")) << why;
        EXPECT_EQ(fixture.quit(), 0);
        return;
    }
    expect_unfollowed(report, answer);
    const auto warnings = result.errors.find("allocations by generated code");
    ASSERT_NE(warnings, std::string::npos) << result.errors;
    EXPECT_EQ(result.errors.find("allocations by generated code", warnings + 1), std::string::npos);
    EXPECT_EQ(fixture.quit(), 0);
}

std::vector<Made> all_made() {
    std::vector<Made> all;
    for (const char* kind : {"anonymous", "memfd", "file"}) {
        all.push_back({kind, false});
        all.push_back({kind, true});
        all.push_back({kind, false, true});
    }
    return all;
}
INSTANTIATE_TEST_SUITE_P(Made, GeneratedCalls, ::testing::ValuesIn(all_made()),
                         [](const auto& instance) {
                             const Made& made = instance.param;
                             return made.kind + (made.is_known ? "_before" : "") +
                                    (made.check ? "_check" : "");
                         });

TEST(GeneratedCode, IsToldInTheTextReport) {
    if (follows_all()) {
        GTEST_SKIP() << "all are followed";
    }
    Memleax memleax({"-e", "1000", "--", fixture_path("generated_code"), "anonymous"});
    memleax.let_fixture_go();
    const auto result = memleax.quit_fixture_and_finish();
    EXPECT_THAT(result.output, HasSubstr(" 0 double frees, 101 allocations not followed.\n"));
    EXPECT_THAT(result.output, HasSubstr("Not followed: 100 (6400 bytes), called by generated "
                                         "code\n"));
}

std::string name_at(const PerfMap& map, std::uint64_t address) {
    const auto* function = map.find(address);
    return function != nullptr ? function->name : "";
}

TEST(PerfMap, ALaterFunctionTakesThePlaceOfEarlierOnes) {
    PerfMap map;
    EXPECT_EQ(map.add("1000 100 a\n1100 100 b\n1200 100 c\n"), 33U);
    EXPECT_EQ(name_at(map, 0xfff), "");
    EXPECT_EQ(name_at(map, 0x1000), "a");
    EXPECT_EQ(name_at(map, 0x10ff), "a");
    EXPECT_EQ(name_at(map, 0x1300), "");
    map.add("0x1080 0x100 d with blanks\n");
    EXPECT_EQ(name_at(map, 0x1000), "");
    EXPECT_EQ(name_at(map, 0x1080), "d with blanks");
    EXPECT_EQ(name_at(map, 0x117f), "d with blanks");
    EXPECT_EQ(name_at(map, 0x1180), "");
    EXPECT_EQ(name_at(map, 0x1200), "c");
}

TEST(PerfMap, OtherLinesAreNothing) {
    PerfMap map;
    for (const char* line :
         {"", "zz 10 a", "1000", "1000 10", "1000 10 ", "1000 0 a", "ffffffffffffffff 10 a",
          "1000 -10 a", "11111111111111111 1 a", "1000 10a"}) {
        EXPECT_EQ(map.add(std::string(line) + "\n"), std::string(line).size() + 1);
        EXPECT_EQ(name_at(map, 0x1000), "") << line;
    }
    EXPECT_EQ(map.add("1000 10 unfinished"), 0U);
}

TEST(Node, FunctionsOfJavaScriptAreNamed) {
    if (std::system("command -v node >/dev/null 2>&1") != 0) {
        GTEST_SKIP() << "node is not installed";
    }
    // The allocation itself is V8's own code. What is kept is the buffers' memory.
    static constexpr const char* kProgram = R"(
        const kept = [];
        function leakyJavaScript(n) { kept.push(new ArrayBuffer(n)); }
        function round() { for (let i = 0; i < 100; ++i) leakyJavaScript(50001); }
        process.stdin.on('data', (line) => {
            if (String(line).startsWith('quit')) process.exit(0);
            round();
            console.log('done');
        });
        console.log('ready');)";
    Fixture node(CommandLine{{"/bin/sh", "-c",
                              "cd /tmp && exec node --perf-basic-prof "
                              "--interpreted-frames-native-stack -e \"$0\"",
                              kProgram}});
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(node.pid())});
    memleax.wait_until_watching();
    node.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    std::int64_t blocks = 0;
    const auto report = result.json();
    for (const auto& stack : report.at("callstacks")) {
        for (const auto& frame : stack.at("frames")) {
            if (frame.value("function", "").find("leakyJavaScript") != std::string::npos) {
                blocks += stack.at("alloc_blocks").get<std::int64_t>();
                break;
            }
        }
    }
    EXPECT_GE(blocks, 100);
    EXPECT_EQ(node.quit(), 0);
    unlink(fmt::format("/tmp/perf-{}.map", node.pid()).c_str());
}

} // namespace
} // namespace memleax::testing
