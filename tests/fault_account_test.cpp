// SPDX-License-Identifier: GPL-3.0-or-later
// Page faults by call stack, and their totals.
#include "memleax/track/fault_account.hpp"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace memleax {
namespace {

PageFault fault(unsigned stack, TouchedKind kind, bool major = false) {
    return {.stack = StackId(stack), .major = major, .kind = kind, .file = {}, .offset = {}};
}

TEST(FaultAccount, ByStackAndByWhatIsTouched) {
    FaultAccount account;
    account.on_page_faults(std::array{fault(3, TouchedKind::heap), fault(1, TouchedKind::anonymous),
                                      fault(3, TouchedKind::heap, true),
                                      fault(3, TouchedKind::stack)});
    ASSERT_EQ(account.stacks().size(), 2U);
    const StackFaults& first = account.stacks()[0];
    EXPECT_EQ(first.stack, StackId(3));
    EXPECT_EQ(first.minor, 2U);
    EXPECT_EQ(first.major, 1U);
    ASSERT_EQ(first.touched.size(), 2U);
    EXPECT_EQ(first.touched[0].kind, TouchedKind::heap);
    EXPECT_EQ(first.touched[0].minor, 1U);
    EXPECT_EQ(first.touched[0].major, 1U);
    EXPECT_EQ(first.touched[1].all(), 1U);
    EXPECT_EQ(account.totals().minor, 3U);
    EXPECT_EQ(account.totals().major, 1U);
}

TEST(FaultAccount, TheRangeOfAFile) {
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    FaultAccount account;
    for (const std::uint64_t number : {7, 3, 5}) {
        PageFault each = fault(0, TouchedKind::file);
        each.file = "/lib/a";
        each.offset = FileOffset(number * page);
        account.on_page_faults({&each, 1});
        each.file = "/lib/b";
        account.on_page_faults({&each, 1});
    }
    ASSERT_EQ(account.stacks()[0].touched.size(), 2U);
    for (const TouchedCount& touched : account.stacks()[0].touched) {
        EXPECT_EQ(touched.all(), 3U);
        EXPECT_EQ(touched.begin, FileOffset(3 * page));
        EXPECT_EQ(touched.end, FileOffset(8 * page));
    }
}

// A server may map a file of its own for each request.
TEST(FaultAccount, ManyFilesOfACallStackAreNotToldApart) {
    constexpr std::size_t kMost = StackFaults::kMostFiles;
    FaultAccount account;
    const auto touch = [&account](std::size_t file) {
        const std::string name = "/tmp/scratch." + std::to_string(file);
        PageFault each = fault(0, TouchedKind::file);
        each.file = name;
        account.on_page_faults({&each, 1});
    };
    account.on_page_faults(std::array{fault(0, TouchedKind::heap)});
    for (std::size_t file = 0; file < kMost + 1000; ++file) {
        touch(file);
    }
    touch(kMost - 1);
    touch(kMost);
    account.on_page_faults(std::array{fault(0, TouchedKind::heap)});
    const std::vector<TouchedCount>& touched = account.stacks()[0].touched;
    ASSERT_EQ(touched.size(), 1 + kMost + 1);
    EXPECT_EQ(touched[0].all(), 2U);
    EXPECT_EQ(touched[kMost].file, "/tmp/scratch.99");
    EXPECT_EQ(touched[kMost].all(), 2U);
    EXPECT_EQ(touched.back().kind, TouchedKind::other_files);
    EXPECT_STREQ(describe(touched.back().kind), "other files");
    EXPECT_EQ(touched.back().all(), 1001U);
    EXPECT_EQ(account.stacks()[0].all(), 2 + kMost + 1000 + 2);
}

TEST(FaultAccount, OurOwnAreCountedApart) {
    FaultAccount account;
    account.on_page_faults(std::array{fault(0, TouchedKind::own), fault(0, TouchedKind::own, true),
                                      fault(0, TouchedKind::heap)});
    EXPECT_EQ(account.totals().own, 2U);
    EXPECT_EQ(account.totals().minor, 1U);
    EXPECT_EQ(account.totals().major, 0U);
    ASSERT_EQ(account.stacks().size(), 1U);
    EXPECT_EQ(account.stacks()[0].all(), 1U);
}

TEST(FaultAccount, TotalsAreTheKernelsWhereSamplesWereLost) {
    FaultAccount account;
    account.on_page_faults(std::array{fault(0, TouchedKind::own), fault(0, TouchedKind::heap)});
    account.on_fault_counts({.minor = 2, .major = 0, .lost = 0});
    EXPECT_EQ(account.totals().minor, 1U);
    account.on_fault_counts({.minor = 40, .major = 5, .lost = 45});
    EXPECT_EQ(account.totals().minor, 41U);
    EXPECT_EQ(account.totals().major, 5U);
    EXPECT_EQ(account.totals().lost, 45U);
    // What came after the last look at the counters.
    for (int i = 0; i < 50; ++i) {
        account.on_page_faults(std::array{fault(0, TouchedKind::heap)});
    }
    EXPECT_EQ(account.totals().minor, 51U);
}

} // namespace
} // namespace memleax
