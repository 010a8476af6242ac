// SPDX-License-Identifier: GPL-3.0-or-later
#include <gtest/gtest.h>
#include <sys/sysmacros.h>

#include "elf_support.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {
namespace {

TEST(Maps, Fields) {
    const auto maps = parse_maps(
        "55d0c0a00000-55d0c0a21000 r-xp 00002000 fd:1a 1234567                    /usr/bin/daemon\n"
        "7f00aa000000-7f00aa001000 rw-s 00000000 00:05 42 /dev/shm/x\n");
    ASSERT_EQ(maps.size(), 2U);
    const Mapping& code = maps[0];
    EXPECT_EQ(code.range, (AddrRange{0x55d0c0a00000, 0x55d0c0a21000}));
    EXPECT_TRUE(code.readable && code.executable);
    EXPECT_FALSE(code.writable || code.shared || code.deleted);
    EXPECT_EQ(code.offset, FileOffset(0x2000));
    EXPECT_EQ(code.device, makedev(0xfd, 0x1a));
    EXPECT_EQ(code.inode, 1234567U);
    EXPECT_EQ(code.path, "/usr/bin/daemon");
    EXPECT_TRUE(maps[1].readable && maps[1].writable && maps[1].shared);
    EXPECT_FALSE(maps[1].executable);
}

TEST(Maps, WithoutFile) {
    const auto maps =
        parse_maps("7ffc0-7ffe0 rw-p 00000000 00:00 0                          [stack]\n"
                   "80000-81000 ---p 00000000 00:00 0 \n"
                   "81000-82000 rw-p 00000000 00:00 0\n"
                   "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]");
    ASSERT_EQ(maps.size(), 4U);
    EXPECT_EQ(maps[0].path, "[stack]");
    EXPECT_EQ(maps[1].path, "");
    EXPECT_FALSE(maps[1].readable || maps[1].writable || maps[1].executable || maps[1].shared);
    EXPECT_EQ(maps[2].path, "");
    EXPECT_EQ(maps[3].range.begin, 0xffffffffff600000U); // the last line needs no newline
}

struct Name {
    const char* text;
    const char* path;
    bool deleted;
};
void PrintTo(const Name& name, std::ostream* out) {
    *out << name.text;
}

class MapsName : public testing::TestWithParam<Name> {};

TEST_P(MapsName, Parsed) {
    const auto maps =
        parse_maps(std::string("1000-2000 r-xp 00000000 08:01 7      ") + GetParam().text + "\n");
    ASSERT_EQ(maps.size(), 1U);
    EXPECT_EQ(maps[0].path, GetParam().path);
    EXPECT_EQ(maps[0].deleted, GetParam().deleted);
}

INSTANTIATE_TEST_SUITE_P(
    Odd, MapsName,
    testing::Values(Name{"/opt/my app/lib x.so", "/opt/my app/lib x.so", false},
                    Name{"/tmp/trailing ", "/tmp/trailing ", false},
                    Name{"/tmp/lib.so (deleted)", "/tmp/lib.so", true},
                    Name{"/tmp/(deleted)", "/tmp/(deleted)", false},
                    Name{"/tmp/a (deleted).so", "/tmp/a (deleted).so", false},
                    Name{"/tmp/two\\012lines", "/tmp/two\nlines", false},
                    Name{"/tmp/\\012\\012 (deleted)", "/tmp/\n\n", true},
                    Name{"/tmp/back\\slash\\01", "/tmp/back\\slash\\01", false},
                    Name{"/memfd:jit (deleted)", "/memfd:jit", true},
                    Name{"[anon:my (deleted)]", "[anon:my (deleted)]", false}));

TEST(Maps, WhatIsNotUnderstoodIsLeftOut) {
    const auto maps = parse_maps("\n"
                                 "Hello\n"
                                 "1000-2000\n"
                                 "1000-2000 r-x\n"
                                 "1000-2000 r-xp 0 08:01\n"
                                 "1000-2000 r-xp 0 0801 7 /x\n"
                                 "2000-1000 r-xp 0 08:01 7 /backwards\n"
                                 "11112222333344445-22223333444455556 r-xp 0 08:01 7 /too-long\n"
                                 "-1000 r-xp 0 08:01 7 /x\n"
                                 "1000-2000 r-xp 0 08:01 7 /good\n");
    ASSERT_EQ(maps.size(), 1U);
    EXPECT_EQ(maps[0].path, "/good");
    EXPECT_TRUE(parse_maps("").empty());
}

TEST(Maps, OfThisProcess) {
    const auto maps = read_maps(test::own_pid());
    ASSERT_TRUE(maps) << maps.error().message();
    const auto here = reinterpret_cast<std::uint64_t>(&parse_maps);
    bool found = false;
    for (std::size_t i = 0; i < maps->size(); ++i) {
        found |= (*maps)[i].range.contains(here) && (*maps)[i].executable;
        EXPECT_TRUE(i == 0 || (*maps)[i - 1].range.end <= (*maps)[i].range.begin);
    }
    EXPECT_TRUE(found);
}

TEST(Maps, NoSuchProcess) {
    const auto maps = read_maps(Tid(0x7fffffff));
    ASSERT_FALSE(maps);
    EXPECT_EQ(maps.error().errnum(), ENOENT);
    EXPECT_NE(maps.error().message().find("/proc/2147483647/maps"), std::string::npos);
}

} // namespace
} // namespace memleax
