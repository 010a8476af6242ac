// SPDX-License-Identifier: GPL-3.0-or-later
// Programs in other languages: what of their memory is seen, and by which names.
#include <algorithm>
#include <chrono>
#include <cstdlib>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// What is live, by the first frame whose name ends, before its parameters, with one of `names`.
Leaks live_by_name(const nlohmann::json& report, const Leaks& names) {
    Leaks live;
    for (const auto& stack : report.at("callstacks")) {
        std::string found = "(elsewhere)";
        for (const auto& frame : stack.at("frames")) {
            const std::string function = frame.value("function", "");
            for (const auto& [name, leak] : names) {
                if (found == "(elsewhere)" && function.ends_with("::" + name)) {
                    found = name;
                }
            }
        }
        live[found].blocks += stack.at("live_blocks").get<std::int64_t>();
        live[found].bytes += stack.at("live_bytes").get<std::int64_t>();
    }
    std::erase_if(live, [](const auto& entry) { return entry.second == Leak{}; });
    return live;
}

/// A call stack is named by the program's function, not by one of the library that it called.
void expect_named_by(const nlohmann::json& report, const Leaks& names) {
    for (const auto& stack : report.at("callstacks")) {
        for (const auto& [name, leak] : names) {
            const auto& frames = stack.at("frames");
            const bool has_it = std::any_of(frames.begin(), frames.end(), [&](const auto& frame) {
                return frame.value("function", "").ends_with("::" + name);
            });
            if (has_it) {
                EXPECT_THAT(std::string(stack.at("where")), HasSubstr("::" + name));
            }
        }
    }
}

class Rust : public ::testing::TestWithParam<std::string> {};

TEST_P(Rust, BlocksAreCountedByName) {
    if (!is_built(GetParam())) {
        GTEST_SKIP() << "rustc was not there when the fixtures were built";
    }
    Fixture fixture(GetParam());
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_THAT(answer.failures, IsEmpty());
    record_compared("counts");
    record_compared("frames");
    EXPECT_EQ(live_by_name(result.json(), answer.truth), answer.truth);
    expect_named_by(result.json(), answer.truth);
    EXPECT_EQ(result.json().at("session").at("events").at("unknown_free"), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(NamesOf, Rust,
                         ::testing::Values("rust_leaks_legacy", "rust_leaks_v0",
                                           "rust_leaks_jemalloc"),
                         [](const auto& instance) { return instance.param; });

/// The first function that is not malloc's, nor the C library's making of a thread. cgo puts a hash
/// before its own functions' names.
std::string c_function(const nlohmann::json& stack) {
    std::string first;
    for (const auto& frame : stack.at("frames")) {
        const std::string function = frame.value("function", "");
        if (function.starts_with("pthread_create")) {
            return "pthread_create";
        }
        if (first.empty() && frame.value("module", "") == "go_leaks") {
            const auto cgo = function.find("_Cfunc_");
            first = cgo == std::string::npos ? function : function.substr(cgo);
        }
    }
    return first;
}

TEST(Go, BlocksOfTheCSideAreCounted) {
    if (!is_built("go_leaks")) {
        GTEST_SKIP() << "go was not there when the fixtures were built";
    }
    Fixture fixture("go_leaks");
    const TargetSnapshot before = take_snapshot_between_births(fixture.pid());
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot_between_births(fixture.pid()), Meanwhile::worked),
                IsEmpty());
    record_compared("counts");
    record_compared("frames");
    const auto report = result.json();
    Leaks live;
    for (const auto& stack : report.at("callstacks")) {
        const std::string function = c_function(stack);
        live[function].blocks += stack.at("live_blocks").get<std::int64_t>();
        live[function].bytes += stack.at("live_bytes").get<std::int64_t>();
    }
    live.erase("pthread_create");     // the runtime's threads,
    live.erase("x_cgo_thread_start"); // and what one that begins just now frees first of all
    EXPECT_EQ(live, answer.truth);
    EXPECT_EQ(report.at("session").at("events").at("unknown_free"), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

/// Blocks of this size that live, whatever their stack.
std::int64_t live_of_size(const nlohmann::json& report, std::int64_t bytes) {
    record_compared("counts");
    std::int64_t blocks = 0;
    for (const auto& stack : report.at("callstacks")) {
        const auto live = stack.at("live_blocks").get<std::int64_t>();
        if (live > 0 && stack.at("live_bytes").get<std::int64_t>() == live * bytes) {
            blocks += live;
        }
    }
    return blocks;
}

/// Python objects that stay: 50 of 333 bytes, and 50 of 50,001 (bytes objects have 33 of their
/// own).
nlohmann::json python_that_keeps(const Environment& environment) {
    const std::string script = R"(
import sys
kept = []
print('ready', flush=True)
for line in sys.stdin:
    for i in range(50):
        kept.append(bytes(300))
    for i in range(50):
        kept.append(bytearray(50000))
    print('done', flush=True)
)";
    ChildProcess python({"/usr/bin/python3", "-c", script}, environment);
    EXPECT_EQ(python.read_line(), "ready");
    const TargetSnapshot before = take_snapshot(python.pid());
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(python.pid())});
    memleax.wait_until_watching();
    python.send("go");
    EXPECT_EQ(python.read_line(), "done");
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(python.pid()), Meanwhile::worked), IsEmpty());
    python.close_input();
    EXPECT_EQ(python.wait_for_end(), 0);
    return result.json();
}

TEST(Python, KeepsSmallObjectsInArenasOfItsOwn) {
    if (access("/usr/bin/python3", X_OK) != 0) {
        GTEST_SKIP() << "python3 is not installed";
    }
    const auto report = python_that_keeps({{"PYTHONMALLOC", "pymalloc"}});
    EXPECT_EQ(live_of_size(report, 333), 0);
    EXPECT_EQ(live_of_size(report, 50001), 50);
}

TEST(Python, ShowsEachObjectWithPythonmallocMalloc) {
    if (access("/usr/bin/python3", X_OK) != 0) {
        GTEST_SKIP() << "python3 is not installed";
    }
    const auto report = python_that_keeps({{"PYTHONMALLOC", "malloc"}});
    EXPECT_EQ(live_of_size(report, 333), 50);
    EXPECT_EQ(live_of_size(report, 50001), 50);
}

TEST(Node, ShowsBuffersAndNotTheObjects) {
    if (std::system("command -v node >/dev/null") != 0) {
        GTEST_SKIP() << "node is not installed";
    }
    const std::string script = R"(
const kept = [];
process.stdin.on('data', () => {
    for (let i = 0; i < 50; i++) {
        kept.push(Buffer.alloc(100003), { object: i });
    }
    console.log('done');
});
process.stdin.on('end', () => process.exit(0));
console.log('ready');
)";
    ChildProcess node({"node", "-e", script});
    ASSERT_EQ(node.read_line(), "ready");
    Memleax memleax({"-F", "json", "-e", "1000", std::to_string(node.pid())});
    memleax.wait_until_watching();
    node.send("go");
    EXPECT_EQ(node.read_line(), "done");
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(live_of_size(result.json(), 100003), 50);
    node.close_input();
    EXPECT_EQ(node.wait_for_end(), 0);
}

} // namespace
} // namespace memleax::testing
