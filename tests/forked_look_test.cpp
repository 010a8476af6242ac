// SPDX-License-Identifier: GPL-3.0-or-later
// --leak-check --snapshot fork: what is found is the truth, also of memory that a fork does not
// give to a child, and the process does not notice that it had one.
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "leaks_support.hpp"
#include "process_support.hpp"
#include "program_support.hpp"
#include "snapshot_support.hpp"
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr const char* kWhyNot = "is not forked";

Memleax::Result look(pid_t pid, const CommandLine& before = {}) {
    CommandLine command = before;
    const auto memleax = memleax_command();
    command.words.insert(command.words.end(), memleax.begin(), memleax.end());
    command.words.insert(command.words.end(),
                         {"--leak-check", "--snapshot", "fork", "-F", "json", std::to_string(pid)});
    return Memleax(command).finish();
}

TEST(ForkedLook, FindsTheTruthAndIsNotNoticed) {
    Fixture fixture("parent");
    const auto first = look(fixture.pid());
    ASSERT_EQ(first.status, 0) << first.errors;
    const Leaks before = classes_of(first.json());
    EXPECT_EQ(before.at("definite"), Leak{});
    const FixtureAnswer noticed_before = fixture.ask("look");
    EXPECT_EQ(noticed_before.counts.at("own"), 1);
    EXPECT_EQ(noticed_before.counts.at("others"), 0);
    EXPECT_EQ(noticed_before.counts.at("sigchld"), 0);
    EXPECT_EQ(noticed_before.counts.at("locks"), 1);
    const FixtureAnswer answer = fixture.go();
    const TargetSnapshot untouched = take_snapshot(fixture.pid());
    for (int i = 0; i < 5; ++i) {
        const auto result = look(fixture.pid());
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(result.errors, Not(HasSubstr(kWhyNot)));
        EXPECT_EQ(difference(classes_of(result.json()), before), answer.truth) << result.output;
        EXPECT_THAT(differences(untouched, take_snapshot(fixture.pid()), Meanwhile::idle),
                    IsEmpty());
    }
    EXPECT_EQ(fixture.ask("look").counts, noticed_before.counts);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(ForkedLook, IsNotNoticedByOneThatWorks) {
    Fixture fixture("parent");
    const auto noticed_before = fixture.ask("look").counts;
    for (int i = 0; i < 10; ++i) {
        fixture.process().send("spin");
        ASSERT_EQ(fixture.process().read_line(), "spinning");
        const auto result = look(fixture.pid());
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(result.errors, Not(HasSubstr(kWhyNot)));
        fixture.ask("stop");
        EXPECT_EQ(fixture.ask("look").counts, noticed_before);
    }
    EXPECT_EQ(fixture.quit(), 0);
}

/// The heap is read all the same.
void expect_a_copy(const CommandLine& target, const std::string& why) {
    Fixture fixture(target);
    fixture.go();
    const auto result = look(fixture.pid());
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(kWhyNot));
    EXPECT_THAT(result.errors, HasSubstr(why));
    EXPECT_TRUE(result.json().at("leak_check").at("complete"));
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(ForkedLook, IsACopyWhereAFilterMayForbidWhatEndsAFork) {
    expect_a_copy({{fixture_path("filtered"), fixture_path("lost_blocks")}}, "seccomp");
}

TEST(ForkedLook, IsACopyWhereThereMayBeNoFurtherProcess) {
    if (!has_program("prlimit")) {
        GTEST_SKIP() << "prlimit is not installed";
    }
    CommandLine command = unprivileged({{fixture_path("held_blocks")}});
    command.words.insert(command.words.begin(), {"prlimit", "--nproc=1"});
    expect_a_copy(command, "it cannot be copied: Resource temporarily unavailable");
}

TEST(ForkedLook, IsACopyWhereChildrenAreInAnotherNamespace) {
    if (!has_program("unshare") || geteuid() != 0) {
        GTEST_SKIP() << "needs unshare, and root";
    }
    expect_a_copy({{"unshare", "--pid", fixture_path("held_blocks")}}, "another PID namespace");
}

} // namespace
} // namespace memleax::testing
