// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/pid_namespace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace memleax {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(NamespacePids, OursFirst) {
    EXPECT_THAT(parse_namespace_pids("Name:\tx\nNSpid:\t4711\t17\t1\nNSpgid:\t1\n"),
                ElementsAre(4711, 17, 1));
    EXPECT_THAT(parse_namespace_pids("Name:\tx\nNSpid:\t4711"), ElementsAre(4711));
}

TEST(NamespacePids, AreUnknownToOldKernels) {
    EXPECT_THAT(parse_namespace_pids("Name:\tNSpid:\nPid:\t4711\n"), IsEmpty());
    EXPECT_THAT(parse_namespace_pids(""), IsEmpty());
}

TEST(FindInPidNamespace, IsItselfWithoutAContainer) {
    const auto found = find_in_pid_namespace(Tid(getpid()), own_number_of(Tid(getpid())));
    ASSERT_TRUE(found) << found.error().message();
    EXPECT_EQ(*found, Tid(getpid()));
    EXPECT_TRUE(check_proc_is_ours());
}

TEST(FindInPidNamespace, OfNobody) {
    EXPECT_FALSE(find_in_pid_namespace(Tid(0x7ffffffe), 1));
}

} // namespace
} // namespace memleax
