// SPDX-License-Identifier: GPL-3.0-or-later
// What decides whether a process is forked for a look at its heap: texts of /proc, and files of
// control groups.
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "../src/proc/control_group.hpp"
#include "elf_support.hpp"
#include "memleax/proc/copyable.hpp"
#include "memleax/proc/memory_look.hpp"
#include "memleax/proc/memory_room.hpp"
#include "memleax/proc/process_memory.hpp"

namespace memleax {
namespace {

using ::testing::HasSubstr;

constexpr std::uint64_t kMiB = 1 << 20;

TEST(Copyable, OvercommitTwoPromisesNothing) {
    EXPECT_TRUE(may_overcommit("0\n"));
    EXPECT_TRUE(may_overcommit("1\n"));
    EXPECT_FALSE(may_overcommit("2\n"));
    EXPECT_FALSE(may_overcommit("")) << "it cannot be read";
}

TEST(Copyable, WhatIsLeftToPromise) {
    MachineMemory machine;
    EXPECT_EQ(left_to_promise(machine), 0U) << "it cannot be read";
    machine.commit_limit = 3200;
    EXPECT_EQ(left_to_promise(machine), 0U);
    machine.committed = 3000;
    EXPECT_EQ(left_to_promise(machine), 100U);
    machine.committed = 3100;
    EXPECT_EQ(left_to_promise(machine), 0U);
    machine.committed = 3300; // the limit was more, once
    EXPECT_EQ(left_to_promise(machine), 0U);
}

TEST(Copyable, WhatIsWrittenIsWhatAForkMayDouble) {
    EXPECT_EQ(parse_written_bytes("VmRSS:\t    9000 kB\nRssAnon:\t    1024 kB\nRssFile:\t 7000 kB\n"
                                  "VmPTE:\t      64 kB\nVmSwap:\t     512 kB\n"),
              1600U * 1024);
    EXPECT_EQ(parse_written_bytes("VmRSS:\t    9000 kB\nVmPTE:\t      64 kB\n"), std::nullopt)
        << "Linux 4.4";
    EXPECT_GT(try_read_written_bytes(Tid(getpid())).value_or(0), 0U);
    EXPECT_EQ(try_read_written_bytes(Tid(0x7fffffff)), std::nullopt);
}

TEST(Copyable, AQuarterIsToBeLeftAndSomeMebibytes) {
    EXPECT_EQ(room_to_be_left(0), 16 * kMiB);
    EXPECT_EQ(room_to_be_left(64 * kMiB), 16 * kMiB);
    EXPECT_EQ(room_to_be_left(400 * kMiB), 100 * kMiB);
}

TEST(Copyable, AUserfaultfdMayBeToldOfForks) {
    const auto fdinfo = [](const std::string& features) {
        return "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1054\npending:\t0\ntotal:\t0\nAPI:\taa:" +
               features + ":80000000000001ff\n";
    };
    EXPECT_FALSE(is_told_of_forks(fdinfo("0")));
    EXPECT_FALSE(is_told_of_forks(fdinfo("80000000"))) << "its API is set";
    EXPECT_TRUE(is_told_of_forks(fdinfo("2")));
    EXPECT_TRUE(is_told_of_forks(fdinfo("8000001e")));
    EXPECT_FALSE(is_told_of_forks(fdinfo("8000001c"))) << "of other changes";
    EXPECT_TRUE(is_told_of_forks("pos:\t0\n"));
    EXPECT_TRUE(is_told_of_forks("API:\taa"));
    EXPECT_TRUE(is_told_of_forks("API:\taa:x:1\n"));
    EXPECT_TRUE(is_told_of_forks(""));
}

std::string why_not(const std::string& map) {
    const auto may =
        check_mappings_copyable(parse_maps("5000-6000 r--p 00000000 08:01 7 /usr/bin/cat\n" + map));
    return may ? "" : may.error().message();
}

TEST(Copyable, MappingsTell) {
    EXPECT_EQ(why_not(""), "");
    EXPECT_THAT(why_not("7000-8000 rw-s 00000000 00:12 9 /[aio] (deleted)\n"),
                HasSubstr("asynchronous I/O"));
    EXPECT_THAT(why_not("7000-8000 rw-s 00000000 00:0e 4 anon_inode:[io_uring]\n"),
                HasSubstr("io_uring"));
    const std::string huge = " 00000000 00:10 3 /anon_hugepage (deleted)\n";
    EXPECT_THAT(why_not("200000-400000 rw-p" + huge), HasSubstr("huge pages"));
    EXPECT_EQ(why_not("200000-400000 rw-s" + huge), "") << "shared pages are not copied";
}

/// A folder with files of that text, in the place of a hierarchy.
class Groups {
  public:
    void put(const std::string& group, const std::map<std::string, std::string>& files) {
        std::filesystem::create_directories(root_ + group);
        for (const auto& [name, text] : files) {
            std::ofstream(root_ + group + "/" + name) << text;
        }
    }
    bool has_room(bool version_2, const std::string& group, std::uint64_t bytes) const {
        return MemoryRoom({ControlGroup{version_2, root_, group}}).check(bytes, kMemoryAgain).ok();
    }

  private:
    test::TemporaryFolder folder_;
    std::string root_ = folder_.file("root");
};

TEST(Copyable, EachGroupAboveHasItsLimit) {
    Groups files;
    files.put("/", {{"memory.stat", "inactive_file 7\n"}});
    files.put("/pod", {{"memory.current", "104857600\n"},
                       {"memory.max", "125829120\n"},
                       {"memory.high", "max\n"},
                       {"memory.stat", "anon 1\ninactive_file 10485760\n"}});
    files.put(
        "/pod/app",
        {{"memory.current", "10485760\n"}, {"memory.max", "52428800\n"}, {"memory.high", "max\n"}});
    files.put("/pod/app/threads", {});
    EXPECT_TRUE(files.has_room(true, "/pod/app/threads", 30 * kMiB)) << "with the cache";
    EXPECT_FALSE(files.has_room(true, "/pod/app/threads", 30 * kMiB + 1));
    EXPECT_FALSE(files.has_room(true, "/pod", 31 * kMiB));
    files.put("/pod", {{"memory.max", "max\n"}});
    EXPECT_TRUE(files.has_room(true, "/pod/app/threads", 40 * kMiB));
    EXPECT_FALSE(files.has_room(true, "/pod/app/threads", 40 * kMiB + 1));
    EXPECT_TRUE(files.has_room(true, "/pod", 1ULL << 60));
}

TEST(Copyable, BeyondHighAGroupIsSlowedDown) {
    Groups files;
    files.put(
        "/a",
        {{"memory.current", "52428800\n"}, {"memory.max", "max\n"}, {"memory.high", "62914560\n"}});
    EXPECT_TRUE(files.has_room(true, "/a", 10 * kMiB));
    EXPECT_FALSE(files.has_room(true, "/a", 10 * kMiB + 1));
    files.put("/a", {{"memory.current", "94371840\n"}});
    EXPECT_FALSE(files.has_room(true, "/a", 0)) << "it is beyond that already";
}

TEST(Copyable, Version1LimitsSwapToo) {
    Groups files;
    files.put("", {{"memory.limit_in_bytes", "9223372036854771712\n"},
                   {"memory.usage_in_bytes", "999999999\n"}});
    files.put("/api", {{"memory.limit_in_bytes", "52428800\n"},
                       {"memory.usage_in_bytes", "31457280\n"},
                       {"memory.stat", "inactive_file 1\ntotal_inactive_file 1048576\n"}});
    EXPECT_TRUE(files.has_room(false, "/api", 21 * kMiB));
    EXPECT_FALSE(files.has_room(false, "/api", 21 * kMiB + 1));
    files.put("/api", {{"memory.memsw.limit_in_bytes", "52428800\n"},
                       {"memory.memsw.usage_in_bytes", "41943040\n"}});
    EXPECT_TRUE(files.has_room(false, "/api", 11 * kMiB));
    EXPECT_FALSE(files.has_room(false, "/api", 11 * kMiB + 1));
}

TEST(Copyable, ALimitWithoutWhatIsUsedLeavesNoRoom) {
    Groups files;
    files.put("/a", {{"memory.max", "62914560\n"}});
    EXPECT_FALSE(files.has_room(true, "/a", 1));
}

TEST(Copyable, TheMachineHasALimit) {
    const MemoryRoom room{Tid(getpid())};
    EXPECT_TRUE(room.check(0, kMemoryAgain).ok());
    const auto too_much = room.check(1ULL << 60, kMemoryAgain);
    ASSERT_FALSE(too_much.ok());
    EXPECT_THAT(too_much.error().message(), HasSubstr("no room for its memory a second time"));
}

} // namespace
} // namespace memleax
