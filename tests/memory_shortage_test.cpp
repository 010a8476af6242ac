// SPDX-License-Identifier: GPL-3.0-or-later
// Is it the group, the machine, or nobody?
#include "memleax/report/memory_shortage.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

constexpr std::uint64_t kMiB = 1024 * 1024;
using Whose = MemoryShortage::Whose;

/// A process of 40 MiB in a group that uses 50 of 100 MiB, on a machine that has half of 1 GiB.
MemoryLooks healthy() {
    MemoryLook look;
    look.process.rss_anon = 38 * kMiB;
    look.process.rss_shmem = 2 * kMiB;
    look.group.folder = "/sys/fs/cgroup/app";
    look.group.path = "/app";
    look.group.version_2 = true;
    look.group.current = 60 * kMiB;
    look.group.inactive_file = 10 * kMiB;
    look.group.limit = 100 * kMiB;
    look.group.at_limit = 5;
    look.group.oom_kills = 1;
    look.group.above_high = 2;
    look.machine.total = 1024 * kMiB;
    look.machine.available = 512 * kMiB;
    look.machine.direct_reclaims = 1000;
    look.machine.pressure = MemoryPressure{StalledTime{0, 0, 0, 5}, {}};
    return {look, look};
}

void expect(const MemoryLooks& looks, Whose whose, const std::string& text) {
    const MemoryShortage shortage = shortage_of(looks);
    EXPECT_EQ(shortage.whose, whose);
    EXPECT_EQ(shortage.text, text);
}

TEST(MemoryShortage, Nobodys) {
    expect(healthy(), Whose::nobodys, "nothing is short of memory");
    EXPECT_FALSE(shortage_of(healthy()).is_short());
}

TEST(MemoryShortage, NotKnown) {
    expect({}, Whose::not_known, "whether anybody is short of memory is not known");
}

TEST(MemoryShortage, TheGroupIsFull) {
    MemoryLooks looks = healthy();
    looks.last.group.current = 108 * kMiB; // less 10
    looks.last.group.at_limit = 8;
    looks.last.process.rss_anon = 96 * kMiB;
    expect(looks, Whose::groups,
           "the group is full: 98% of 100.0 MiB used, 3 times at its limit since the attach; this "
           "process has 100% of what is used");
    looks.last.process.rss_anon = 47 * kMiB;
    expect(looks, Whose::groups,
           "the group is full: 98% of 100.0 MiB used, 3 times at its limit since the attach; this "
           "process has 50% of what is used");
    looks.last.group.at_limit = 5;
    expect(looks, Whose::groups,
           "the group is nearly full: 98% of 100.0 MiB used; this process has 50% of what is used");
}

TEST(MemoryShortage, AGroupThatIsFullOfFileCacheIsNot) {
    MemoryLooks looks = healthy();
    looks.last.group.current = 100 * kMiB;
    looks.last.group.inactive_file = 50 * kMiB;
    looks.last.group.at_limit = 800;
    expect(looks, Whose::nobodys, "nothing is short of memory");
    looks.last.group.pressure = MemoryPressure{StalledTime{3, 1, 0, 5}, {}};
    expect(
        looks, Whose::groups,
        "the group is full of file cache that is in use: 795 times at its limit (100.0 MiB) since "
        "the attach, and some task waited in 3% of the last 10 s");
}

TEST(MemoryShortage, TheKernelHasKilled) {
    MemoryLooks looks = healthy();
    looks.last.group.oom_kills = 2;
    expect(looks, Whose::groups,
           "the group was out of memory: the kernel has killed a process of it since the attach "
           "(limit 100.0 MiB)");
    looks.last.group.oom_kills = 4;
    expect(looks, Whose::groups,
           "the group was out of memory: the kernel has killed 3 processes of it since the attach "
           "(limit 100.0 MiB)");
    looks.first.group.folder = "/sys/fs/cgroup/other"; // has other counters
    EXPECT_EQ(shortage_of(looks).whose, Whose::nobodys);
}

TEST(MemoryShortage, TheGroupIsSlowedDown) {
    MemoryLooks looks = healthy();
    looks.last.group.limit.reset();
    looks.last.group.high = 50 * kMiB;
    looks.last.group.above_high = 3;
    expect(looks, Whose::groups,
           "the group is slowed down: 1 time above memory.high (50.0 MiB) since the attach, 50.0 "
           "MiB used; this process has 80% of what is used");
}

TEST(MemoryShortage, TheGroupWaits) {
    MemoryLooks looks = healthy();
    looks.last.group.pressure = MemoryPressure{StalledTime{12.5, 1, 0, 5}, {}};
    expect(looks, Whose::groups,
           "the group waits for memory: some task did in 12.5% of the last 10 s");
}

TEST(MemoryShortage, TheMachineIsShort) {
    MemoryLooks looks = healthy();
    looks.last.machine.available = 32 * kMiB;
    looks.last.process.rss_anon = 494 * kMiB;
    expect(looks, Whose::machines,
           "the machine is short of memory: 3.1% of 1.0 GiB available; this process has 50% of "
           "what is used");
    looks.last.process.rss_anon.reset(); // could not be read
    expect(looks, Whose::machines, "the machine is short of memory: 3.1% of 1.0 GiB available");
}

TEST(MemoryShortage, TheMachineWaitsOrReclaims) {
    MemoryLooks looks = healthy();
    looks.last.machine.direct_reclaims = 1012;
    expect(looks, Whose::nobodys, "nothing is short of memory");
    looks.last.machine.pressure = MemoryPressure{StalledTime{0, 2, 0, 5}, {}};
    expect(looks, Whose::machines,
           "the machine reclaims: allocations had to wait for that 12 times since the attach");
    looks.last.machine.pressure = MemoryPressure{StalledTime{25, 2, 0, 5}, {}};
    expect(looks, Whose::machines,
           "the machine waits for memory: some task did in 25% of the last 10 s");
}

TEST(MemoryShortage, GrowthOfWhatWasNotRead) {
    EXPECT_EQ(growth_of(3, 5), 2U);
    EXPECT_EQ(growth_of(5, 3), 0U);
    EXPECT_EQ(growth_of(std::nullopt, 3), std::nullopt);
    EXPECT_EQ(growth_of(3, std::nullopt), std::nullopt);
}

} // namespace
} // namespace memleax
