// SPDX-License-Identifier: GPL-3.0-or-later
// A forked child that gets no CPU before its parent's memory is gone (fixtures/held_up_child.c):
// what is ours in its copy is taken out all the same.
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "process_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kProgram = "lost_blocks"; ///< what the parent executes

/// The pid of "child PID".
std::optional<pid_t> told_child(const std::string& line) {
    const std::string word = "child ";
    return line.starts_with(word) ? std::optional(std::stoi(line.substr(word.size())))
                                  : std::nullopt;
}

/// Executable mappings that no file has; the kernel's own have names.
std::vector<std::string> code_of_no_file(const TargetSnapshot& snapshot) {
    std::vector<std::string> lines;
    for (const auto& [address, mapping] : snapshot.mappings) {
        if (mapping.executable && mapping.file.empty()) {
            lines.push_back(mapping.line);
        }
    }
    return lines;
}

void expect_clean(pid_t child) {
    const TargetSnapshot snapshot = take_snapshot(child);
    EXPECT_THAT(unlike_their_files(snapshot), IsEmpty());
    EXPECT_THAT(code_of_no_file(snapshot), IsEmpty());
    for (const auto& [tid, thread] : snapshot.threads) {
        EXPECT_EQ(thread.tracer, 0) << tid;
    }
}

TEST(HeldUpChild, OfAParentThatHasEndedIsClean) {
    Fixture fixture("held_up_child", {fixture_path(kProgram)});
    Memleax memleax({"-q", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.process().send("end");
    const std::string line = fixture.process().read_line().value_or("");
    if (line == "cannot") {
        GTEST_SKIP() << "no second CPU, or no right to real-time priorities";
    }
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto child = told_child(line);
    ASSERT_TRUE(child) << line;
    expect_clean(*child);
    fixture.process().close_input();
    EXPECT_EQ(fixture.process().wait_for_end(), 0);
}

struct Way {
    const char* name;
    std::vector<std::string> options;
};
void PrintTo(const Way& way, std::ostream* out) {
    *out << way.name;
}

class HeldUpChildOfExec : public ::testing::TestWithParam<Way> {};

// By the table of the program that made it. Followed, it has that one's breakpoints until we leave.
TEST_P(HeldUpChildOfExec, IsClean) {
    Fixture fixture("held_up_child", {fixture_path(kProgram)});
    std::vector<std::string> arguments{"-q", "-e", "1000", std::to_string(fixture.pid())};
    arguments.insert(arguments.begin(), GetParam().options.begin(), GetParam().options.end());
    Memleax memleax(arguments);
    memleax.wait_until_watching();
    fixture.process().send("exec");
    std::optional<pid_t> child;
    for (int lines = 0; lines < 2; ++lines) { // the other one is the new program's
        const std::string line = fixture.process().read_line().value_or("");
        if (line == "cannot") {
            GTEST_SKIP() << "no second CPU, or no right to real-time priorities";
        }
        if (const auto told = told_child(line)) {
            child = told;
        } else {
            EXPECT_EQ(line, "ready");
        }
    }
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, Not(HasSubstr("is not watched")));
    ASSERT_TRUE(child);
    expect_clean(*child);
    fixture.process().close_input();
    EXPECT_EQ(fixture.process().wait_for_end(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, HeldUpChildOfExec,
                         ::testing::Values(Way{"alone", {}}, Way{"followed", {"-f"}}),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace memleax::testing
