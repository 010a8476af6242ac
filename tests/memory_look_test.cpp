// SPDX-License-Identifier: GPL-3.0-or-later
// Whose memory is short: files of proc and of control groups, as real machines have them.
#include "memleax/proc/memory_look.hpp"

#include <filesystem>
#include <fstream>
#include <map>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "../src/proc/control_group.hpp"
#include "../src/proc/group_memory.hpp"
#include "elf_support.hpp"

namespace memleax {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr std::uint64_t kMiB = 1024 * 1024;

TEST(MemoryPressureFile, OfAMachine) {
    const auto pressure =
        parse_memory_pressure("some avg10=1.53 avg60=0.87 avg300=0.22 total=18371626\n"
                              "full avg10=0.50 avg60=0.10 avg300=0.00 total=13161841\n");
    ASSERT_TRUE(pressure && pressure->some && pressure->full);
    EXPECT_EQ(pressure->some->avg10, 1.53);
    EXPECT_EQ(pressure->some->avg300, 0.22);
    EXPECT_EQ(pressure->some->total_us, 18371626U);
    EXPECT_EQ(pressure->full->avg60, 0.10);
    EXPECT_EQ(pressure->full->total_us, 13161841U);
}

TEST(MemoryPressureFile, OfNoSuchKind) {
    EXPECT_FALSE(parse_memory_pressure(""));
    EXPECT_FALSE(parse_memory_pressure("some avg10=1.53 avg60\n"));
    const auto some = parse_memory_pressure("some avg10=0.00 avg60=0.00 avg300=0.00 total=7\n");
    ASSERT_TRUE(some && some->some);
    EXPECT_FALSE(some->full);
}

TEST(MachineMemoryFiles, OfLinux6) {
    const MachineMemory memory = parse_machine_memory("MemTotal:       24684084 kB\n"
                                                      "MemFree:         1234 kB\n"
                                                      "MemAvailable:   23400000 kB\n"
                                                      "SwapTotal:             0 kB\n"
                                                      "SwapFree:              0 kB\n"
                                                      "Slab:             306800 kB\n"
                                                      "SUnreclaim:        48696 kB\n"
                                                      "CommitLimit:    12341808 kB\n"
                                                      "Committed_AS:      83648 kB\n",
                                                      "pswpin 3\n"
                                                      "pswpout 4\n"
                                                      "allocstall_dma 0\n"
                                                      "allocstall_normal 1802\n"
                                                      "allocstall_movable 56710\n"
                                                      "pgsteal_kswapd 2640251\n"
                                                      "pgsteal_direct 1328533\n"
                                                      "pgsteal_khugepaged 0\n"
                                                      "pgscan_kswapd 57788097\n"
                                                      "pgscan_direct 51217949\n"
                                                      "pgscan_direct_throttle 99\n"
                                                      "pgscan_anon 5\n"
                                                      "pgscan_file 109006041\n",
                                                      "");
    EXPECT_EQ(memory.total, 24684084ULL * 1024);
    EXPECT_EQ(memory.available, 23400000ULL * 1024);
    EXPECT_EQ(memory.commit_limit, 12341808ULL * 1024);
    EXPECT_EQ(memory.committed, 83648U * 1024);
    EXPECT_EQ(memory.swap_total, 0U);
    EXPECT_EQ(memory.slab, 306800U * 1024);
    EXPECT_EQ(memory.slab_unreclaimable, 48696U * 1024);
    EXPECT_EQ(memory.swapped_in, 3U);
    EXPECT_EQ(memory.swapped_out, 4U);
    EXPECT_EQ(memory.scanned, 57788097U + 51217949U);
    EXPECT_EQ(memory.stolen, 2640251U + 1328533U);
    EXPECT_EQ(memory.direct_reclaims, 58512U);
    EXPECT_FALSE(memory.pressure) << "a kernel without PSI";
}

TEST(MachineMemoryFiles, WhatIsNotThereIsNotZero) {
    const MachineMemory memory = parse_machine_memory("MemTotal: 5 kB\n", "allocstall 7\n", "");
    EXPECT_EQ(memory.total, 5U * 1024);
    EXPECT_EQ(memory.direct_reclaims, 7U) << "before Linux 4.10 they were not counted by zone";
    EXPECT_FALSE(memory.available || memory.swap_total || memory.slab || memory.scanned ||
                 memory.swapped_in);
}

TEST(ProcessUseFiles, OfAProcessWithAHostileName) {
    const ProcessUse use = parse_process_use("Name:\t) S 1\nVmRSS:\t    9000 kB\nRssAnon:\t"
                                             "    3000 kB\nRssFile:\t    4096 kB\n"
                                             "RssShmem:\t    1904 kB\nVmSwap:\t      12 kB\n"
                                             "Threads:\t5\n",
                                             "4711 () S 1) S 1 4711 4711 0 -1 4194560 372 11 6 2 "
                                             "0 0 0 0 20 0 5 0 1234 0 0\n");
    EXPECT_EQ(use.rss, 9000U * 1024);
    EXPECT_EQ(use.rss_anon, 3000U * 1024);
    EXPECT_EQ(use.rss_file, 4096U * 1024);
    EXPECT_EQ(use.rss_shmem, 1904U * 1024);
    EXPECT_EQ(use.swap, 12U * 1024);
    EXPECT_EQ(use.threads, 5U);
    EXPECT_EQ(use.minor_faults, 372U);
    EXPECT_EQ(use.major_faults, 6U);
    EXPECT_FALSE(use.oom_score);
}

TEST(ProcessUseFiles, OfAZombie) {
    const ProcessUse use = parse_process_use("Name:\tsh\nThreads:\t1\n", "");
    EXPECT_FALSE(use.rss || use.rss_anon || use.minor_faults || use.major_faults);
    EXPECT_EQ(use.threads, 1U);
}

std::vector<std::string> folders(const std::string& groups, const std::string& mounts,
                                 const char* controller, const std::string& root = "") {
    std::vector<std::string> found;
    for (const ControlGroup& group : parse_control_groups(groups, mounts, controller, root)) {
        found.push_back(group.mount + "|" + group.path);
    }
    return found;
}

const char* const kHybridMounts =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    "37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime shared:9 - cgroup cgroup rw,freezer\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

TEST(ControlGroups, Hybrid) {
    const std::string groups = "9:name=systemd:/\n4:memory,hugetlb:/api/a2\n6:freezer:/\n0::/x\n";
    EXPECT_THAT(folders(groups, kHybridMounts, "memory"),
                ElementsAre("/sys/fs/cgroup/memory|/api/a2"));
    EXPECT_THAT(folders(groups, kHybridMounts, "freezer"), ElementsAre("/sys/fs/cgroup/freezer|"));
    EXPECT_THAT(folders(groups, kHybridMounts, ""), ElementsAre("/sys/fs/cgroup/unified|/x"));
    EXPECT_THAT(folders(groups, kHybridMounts, "mem"), IsEmpty());
}

TEST(ControlGroups, Version2) {
    const char* const mounts = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 "
                               "rw,nsdelegate,memory_recursiveprot\n";
    EXPECT_THAT(folders("0::/system.slice/redis.service\n", mounts, ""),
                ElementsAre("/sys/fs/cgroup|/system.slice/redis.service"));
    EXPECT_THAT(folders("0::/\n", mounts, ""), ElementsAre("/sys/fs/cgroup|"));
    EXPECT_THAT(folders("0::/\n", mounts, "memory"), IsEmpty());
}

TEST(ControlGroups, OfAContainer) {
    // Version 1: the container sees its own folder, where the hierarchy's root would be.
    const char* const bound = "700 699 0:30 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup "
                              "rw,memory\n";
    EXPECT_THAT(folders("4:memory:/docker/abc\n", bound, "memory"),
                ElementsAre("/sys/fs/cgroup/memory|"));
    EXPECT_THAT(folders("4:memory:/docker/abc/inner\n", bound, "memory", "/proc/7/root"),
                ElementsAre("/proc/7/root/sys/fs/cgroup/memory|/inner"));
    EXPECT_THAT(folders("4:memory:/docker/abcdef\n", bound, "memory"), IsEmpty());
    // Another container's, seen from within ours: our mounts end above it, its own do not.
    EXPECT_THAT(folders("0::/../def\n", "30 23 0:26 / /sys/fs/cgroup ro - cgroup2 c rw\n", ""),
                IsEmpty());
    EXPECT_THAT(folders("0::/../def\n", "30 23 0:26 /../def /sys/fs/cgroup ro - cgroup2 c rw\n", "",
                        "/proc/7/root"),
                ElementsAre("/proc/7/root/sys/fs/cgroup|"));
}

/// A folder with files of that text, in the place of a hierarchy.
class Hierarchy {
  public:
    void put(const std::string& group, const std::map<std::string, std::string>& files) {
        std::filesystem::create_directories(root_ + group);
        for (const auto& [name, text] : files) {
            std::ofstream(root_ + group + "/" + name) << text;
        }
    }
    GroupMemory read(bool version_2, const std::string& group) const {
        return read_group_memory(ControlGroup{version_2, root_, group});
    }

  private:
    test::TemporaryFolder folder_;
    std::string root_ = folder_.file("root");
};

TEST(GroupMemoryFiles, Version2TakesTheNextLimit) {
    Hierarchy files;
    files.put("/", {{"memory.pressure", ""}});
    files.put("/pod", {{"cgroup.events", "populated 1\n"},
                       {"memory.current", "104857600\n"},
                       {"memory.max", "125829120\n"},
                       {"memory.high", "max\n"},
                       {"memory.events", "low 0\nhigh 5\nmax 7\noom 2\noom_kill 1\n"},
                       {"memory.stat", "anon 1\ninactive_file 20971520\nactive_file 3\n"}});
    files.put("/pod/app", {{"cgroup.events", "populated 1\n"},
                           {"memory.current", "10485760\n"},
                           {"memory.max", "52428800\n"}});
    files.put("/pod/app/threads", {{"cgroup.events", "populated 1\n"}});
    const GroupMemory memory = files.read(true, "/pod/app/threads");
    EXPECT_EQ(memory.path, "/pod") << "20 MiB are left there, and 40 MiB in /pod/app";
    EXPECT_EQ(memory.current, 100 * kMiB);
    EXPECT_EQ(memory.limit, 120 * kMiB);
    EXPECT_EQ(memory.inactive_file, 20 * kMiB);
    EXPECT_EQ(memory.used(), 80 * kMiB);
    EXPECT_EQ(memory.high, std::nullopt) << "max";
    EXPECT_EQ(memory.above_high, 5U);
    EXPECT_EQ(memory.at_limit, 7U);
    EXPECT_EQ(memory.out_of_memory, 2U);
    EXPECT_EQ(memory.oom_kills, 1U);
}

TEST(GroupMemoryFiles, Version2WithoutLimits) {
    Hierarchy files;
    files.put("/a/b", {{"cgroup.events", ""}, {"memory.current", "5\n"}, {"memory.max", "max\n"}});
    files.put("/a", {{"cgroup.events", ""}, {"memory.current", "9\n"}, {"memory.max", "max\n"}});
    const GroupMemory memory = files.read(true, "/a/b");
    EXPECT_EQ(memory.path, "/a/b");
    EXPECT_EQ(memory.current, 5U);
    EXPECT_FALSE(memory.limit || memory.at_limit || memory.inactive_file || memory.oom_kills);
}

TEST(GroupMemoryFiles, Version1) {
    Hierarchy files;
    files.put("", {{"memory.limit_in_bytes", "9223372036854771712\n"},
                   {"memory.usage_in_bytes", "999999999\n"}});
    files.put("/api", {{"memory.limit_in_bytes", "52428800\n"},
                       {"memory.usage_in_bytes", "41943040\n"},
                       {"memory.failcnt", "12\n"},
                       {"memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 3\n"},
                       {"memory.stat", "inactive_file 1\ntotal_inactive_file 1048576\n"}});
    const GroupMemory memory = files.read(false, "/api");
    EXPECT_EQ(memory.path, "/api");
    EXPECT_EQ(memory.limit, 50 * kMiB);
    EXPECT_EQ(memory.used(), 39 * kMiB);
    EXPECT_EQ(memory.at_limit, 12U);
    EXPECT_EQ(memory.oom_kills, 3U);
    EXPECT_FALSE(memory.high || memory.above_high || memory.out_of_memory);
    EXPECT_EQ(files.read(false, "").folder, "") << "the root's memory is the machine's";
}

TEST(GroupMemoryFiles, TheLimitOfAContainersFirstGroup) {
    Hierarchy files;
    files.put("", {{"memory.limit_in_bytes", "52428800\n"}, {"memory.usage_in_bytes", "5\n"}});
    EXPECT_EQ(files.read(false, "").limit, 50 * kMiB);
    EXPECT_EQ(files.read(false, "").path, "/");
}

TEST(GroupMemoryFiles, AreReadAgainAfterTheProcessHasLeft) {
    Hierarchy files;
    files.put("/a", {{"cgroup.events", ""},
                     {"memory.current", "5\n"},
                     {"memory.max", "10\n"},
                     {"memory.events", "max 1\noom_kill 0\n"}});
    const GroupMemory before = files.read(true, "/a");
    files.put("/a", {{"memory.current", "2\n"}, {"memory.events", "max 4\noom_kill 1\n"}});
    const GroupMemory after = look_again(before);
    EXPECT_EQ(after.path, "/a");
    EXPECT_EQ(after.current, 2U);
    EXPECT_EQ(after.at_limit, 4U);
    EXPECT_EQ(after.oom_kills, 1U);
    std::filesystem::remove_all(before.folder);
    EXPECT_EQ(look_again(after).oom_kills, 1U) << "the group has gone, too";
}

TEST(MemoryLook, AtThisProcess) {
    const MemoryLook look = look_at_memory(Tid(getpid()));
    EXPECT_GT(look.process.rss.value_or(0), kMiB);
    EXPECT_GE(look.process.threads.value_or(0), 1U);
    EXPECT_GE(look.process.descriptors.value_or(0), 3U);
    EXPECT_GT(look.process.minor_faults.value_or(0), 0U);
    EXPECT_GT(look.machine.total.value_or(0), look.machine.available.value_or(0));
    EXPECT_GT(look.machine.available.value_or(0), 0U);
    const auto first = first_to_be_killed(look.group);
    EXPECT_TRUE(!first || first->value() > 0);
}

TEST(MemoryLook, AtNobody) {
    const MemoryLook look = look_at_memory(Tid(0x7fffffff)); // beyond pid_max (proc(5))
    EXPECT_FALSE(look.process.rss || look.process.threads || look.process.descriptors);
    EXPECT_EQ(look.group.folder, "");
}

} // namespace
} // namespace memleax
