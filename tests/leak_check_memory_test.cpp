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
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/present_pages.hpp"
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

TEST_P(LeakCheckOfMemory, AnAlignedBlockThatReallocHasMadeLongerOrShorter) {
    expect_the_truth_of("mapped_blocks", {"realigned"});
}

// Static: malloc's variables are looked for among the program's.
TEST_P(LeakCheckOfMemory, VariablesThatWereNotTouchedGetNoPages) {
    for (const char* program : {"musl-big_bss", "big_bss-static"}) {
        SCOPED_TRACE(program);
        if (!is_built(program)) {
            continue;
        }
        Fixture fixture(program);
        const auto kilobytes = [&fixture] {
            const std::string line = page_tables_of(fixture.pid());
            return std::stol(line.substr(line.find(':') + 1));
        };
        const long tables = kilobytes();
        EXPECT_GE(complete_check(fixture.pid()).at("reachable").blocks, 1); // glibc has some
        // Where its stack goes on, as it does or for the copy, there may be a table or two that are
        // new: the variables would be hundreds.
        constexpr long kOfItsStack = 12;
        EXPECT_LE(kilobytes() - tables, kOfItsStack);
        EXPECT_EQ(fixture.quit(), 0);
    }
}

/// All pages of large anonymous mappings.
std::vector<AddrRange> pages_of_large_mappings(pid_t pid) {
    constexpr std::uint64_t kLarge = 32U << 20;
    std::vector<AddrRange> pages;
    const auto mappings = read_maps(Tid(pid));
    if (!mappings) {
        return {};
    }
    for (const Mapping& mapping : *mappings) {
        if (mapping.inode == 0 && mapping.range.size() >= kLarge) {
            const auto parts = PresentPages(Tid(pid)).in(mapping.range, PresentPages::Kind::any);
            pages.insert(pages.end(), parts.begin(), parts.end());
        }
    }
    return pages;
}

// Where there is no room for a copy.
TEST(LeakCheckInPlace, BlocksThatWereNotTouchedGetNoPages) {
    Fixture fixture("mapped_blocks", {"sparse"});
    fixture.go();
    const auto pages = pages_of_large_mappings(fixture.pid());
    const std::string tables = page_tables_of(fixture.pid());
    EXPECT_FALSE(pages.empty());
    const auto snapshot = take_heap_snapshot(Tid(fixture.pid()), {.in_place = true});
    ASSERT_TRUE(snapshot);
    EXPECT_TRUE(snapshot->complete) << snapshot->why;
    EXPECT_GE(snapshot->graph.blocks.size(), 4U);
    EXPECT_EQ(pages_of_large_mappings(fixture.pid()), pages);
    EXPECT_EQ(page_tables_of(fixture.pid()), tables);
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
