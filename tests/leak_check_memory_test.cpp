// SPDX-License-Identifier: GPL-3.0-or-later
// --leak-check of memory that is mapped in other ways than usual: what there holds a block, and no
// page that is made for the process by looking.
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "leaks_support.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

/// How the picture of the process is taken.
class LeakCheckOfMemory : public ::testing::TestWithParam<const char*> {
  protected:
    static Memleax::Result check(pid_t pid) {
        return Memleax(
                   {"--leak-check", "-F", "json", "--snapshot", GetParam(), std::to_string(pid)})
            .finish();
    }
    static Leaks complete_check(pid_t pid) {
        const auto result = check(pid);
        EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 0)
            << result.output << result.errors;
        return classes_of(result.json());
    }
    /// What its round has added is in the classes that it says.
    static void expect_the_truth_of(const std::string& program,
                                    const std::vector<std::string>& arguments = {}) {
        Fixture fixture(program, arguments);
        const Leaks before = complete_check(fixture.pid());
        const FixtureAnswer answer = fixture.go();
        EXPECT_EQ(difference(complete_check(fixture.pid()), before), answer.truth);
        EXPECT_EQ(fixture.quit(), 0);
    }
};

INSTANTIATE_TEST_SUITE_P(Snapshots, LeakCheckOfMemory, ::testing::Values("copy", "fork"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST_P(LeakCheckOfMemory, APoolBelowTheStackOfAThreadThatHasEndedHoldsItsBlocks) {
    expect_the_truth_of("pool_below_stack");
}

/// "VmPTE:	      48 kB"
std::string page_tables_of(pid_t pid) {
    std::ifstream status(fmt::format("/proc/{}/status", pid));
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("VmPTE:")) {
            return line;
        }
    }
    return "";
}

// By the memfd itself: the page table stays as it is.
TEST_P(LeakCheckOfMemory, ATableThatIsMappedAnewHoldsItsBlocks) {
    Fixture fixture("shared_tables", {"mapped_anew"});
    const Leaks before = complete_check(fixture.pid());
    const FixtureAnswer answer = fixture.go();
    const std::string tables = page_tables_of(fixture.pid());
    for (int i = 0; i < 2; ++i) {
        EXPECT_EQ(difference(complete_check(fixture.pid()), before), answer.truth);
    }
    EXPECT_EQ(page_tables_of(fixture.pid()), tables);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_P(LeakCheckOfMemory, ASharedTableOfTheParentsHoldsItsBlocks) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "shared anonymous memory can be opened by root only";
    }
    Fixture fixture("shared_tables", {"of_parent"});
    const FixtureAnswer answer = fixture.go();
    const auto child = static_cast<pid_t>(answer.counts.at("child"));
    const std::string tables = page_tables_of(child);
    EXPECT_EQ(complete_check(child), complete_check(fixture.pid()));
    EXPECT_EQ(complete_check(child).at("definite"), Leak{});
    EXPECT_EQ(page_tables_of(child), tables);
    EXPECT_EQ(fixture.quit(), 0);
}

// A memfd of which the process has no descriptor is root's to open.
TEST_P(LeakCheckOfMemory, WithoutATableThatCannotBeReadNoBlockIsCalledLost) {
    Fixture fixture(unprivileged({{fixture_path("shared_tables"), "closed"}}));
    const auto look = [&fixture] {
        return Memleax(unprivileged({{MEMLEAX_PROGRAM, "--leak-check", "-F", "json", "--snapshot",
                                      GetParam(), std::to_string(fixture.pid())}}))
            .finish();
    };
    const auto before = look();
    if (WEXITSTATUS(before.status) == 126 || WEXITSTATUS(before.status) == 127) {
        GTEST_SKIP() << "the program's folder is not open to others: " << before.errors;
    }
    EXPECT_FALSE(before.json().at("leak_check").contains("unread"));
    const FixtureAnswer answer = fixture.go();
    const auto after = look();
    EXPECT_TRUE(after.json().at("leak_check").contains("unread")) << after.output;
    Leaks found = difference(classes_of(after.json()), classes_of(before.json()));
    EXPECT_EQ(found["possible"], answer.truth.at("reachable")) << after.output;
    EXPECT_EQ(found["definite"], Leak{});
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
