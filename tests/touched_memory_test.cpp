// SPDX-License-Identifier: GPL-3.0-or-later
// What the address of a page fault belongs to.
#include "../src/faults/touched_memory.hpp"

#include <gtest/gtest.h>
#include <unistd.h>

namespace memleax {
namespace {

const auto kPage = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE)); // NOLINT(cert-err58-cpp)

AddrRange pages(std::uint64_t first, std::uint64_t count) {
    return {first * kPage, (first + count) * kPage};
}
RemoteAddr in_page(std::uint64_t number, std::uint64_t offset = 0) {
    return RemoteAddr(number * kPage + offset);
}
constexpr RemoteAddr kNoSp;

TEST(TouchedMemory, WhatMapsSays) {
    TouchedMemory memory;
    memory.set(parse_maps("20000-30000 rw-p 00000000 00:00 0 \n"
                          "30000-40000 rw-p 00000000 00:00 0 [heap]\n"
                          "40000-50000 rw-p 00000000 00:00 0 [anon:pool]\n"
                          "50000-60000 rw-p 00000000 00:00 0 [stack]\n"
                          "100000-120000 r--p 00030000 08:01 5 /usr/lib/libc.so.6\n"),
               RemoteAddr());
    const auto file = memory.find(RemoteAddr(0x100000 + kPage + 1), kNoSp);
    EXPECT_EQ(file.kind, TouchedKind::file);
    EXPECT_EQ(file.file, "/usr/lib/libc.so.6");
    EXPECT_EQ(file.offset, FileOffset(0x30000 + kPage));
    EXPECT_EQ(memory.find(RemoteAddr(0x20000), kNoSp).kind, TouchedKind::anonymous);
    EXPECT_EQ(memory.find(RemoteAddr(0x3ffff), kNoSp).kind, TouchedKind::heap);
    EXPECT_EQ(memory.find(RemoteAddr(0x40000), kNoSp).kind, TouchedKind::anonymous);
    EXPECT_EQ(memory.find(RemoteAddr(0x5ffff), kNoSp).kind, TouchedKind::stack);
    EXPECT_EQ(memory.find(RemoteAddr(0x60000), kNoSp).kind, TouchedKind::unknown);
    EXPECT_EQ(memory.find(RemoteAddr(0x1ffff), kNoSp).kind, TouchedKind::unknown);
}

TEST(TouchedMemory, ANewMappingOverPartsOfOthers) {
    TouchedMemory memory;
    memory.add(pages(10, 10), FileOffset(0), "/a", false);
    memory.add(pages(13, 4), FileOffset(5 * kPage), "/b", false);
    EXPECT_EQ(memory.find(in_page(12), kNoSp).file, "/a");
    EXPECT_EQ(memory.find(in_page(13), kNoSp).file, "/b");
    EXPECT_EQ(memory.find(in_page(16), kNoSp).offset, FileOffset(8 * kPage));
    EXPECT_EQ(memory.find(in_page(17), kNoSp).file, "/a");
    EXPECT_EQ(memory.find(in_page(17), kNoSp).offset, FileOffset(7 * kPage));
    memory.add(pages(0, 100), FileOffset(0), "//anon", false);
    EXPECT_EQ(memory.find(in_page(13), kNoSp).kind, TouchedKind::anonymous);
    memory.add(pages(13, 0), FileOffset(0), "/nothing", false);
    EXPECT_EQ(memory.find(in_page(13), kNoSp).kind, TouchedKind::anonymous);
}

TEST(TouchedMemory, TheFirstOfTheBreaksMemory) {
    TouchedMemory memory;
    memory.set({}, in_page(10, 8)); // within a page: the memory begins with the next
    memory.add(pages(11, 4), FileOffset(0), "//anon", false);
    EXPECT_EQ(memory.find(in_page(14), kNoSp).kind, TouchedKind::heap);
    memory.add(pages(20, 4), FileOffset(0), "//anon", false);
    EXPECT_EQ(memory.find(in_page(20), kNoSp).kind, TouchedKind::anonymous);
    memory.add(pages(11, 1), FileOffset(0), "/file", false);
    EXPECT_EQ(memory.find(in_page(11), kNoSp).kind, TouchedKind::file);
}

TEST(TouchedMemory, WhatTheKernelJoinsStaysApart) {
    TouchedMemory memory;
    memory.add(pages(10, 10), FileOffset(0), "//anon", false); // a stack
    memory.add(pages(10, 15), FileOffset(0), "//anon", true);  // and what is beside it now
    const RemoteAddr sp = in_page(10); // a page below it is a stack's, of any size
    EXPECT_EQ(memory.find(in_page(12), sp).kind, TouchedKind::stack);
    EXPECT_EQ(memory.find(in_page(19), sp).kind, TouchedKind::stack);
    EXPECT_EQ(memory.find(in_page(20), sp).kind, TouchedKind::anonymous);
    memory.add(pages(5, 30), FileOffset(0), "//anon", true);
    EXPECT_EQ(memory.find(in_page(19), sp).kind, TouchedKind::stack);
    EXPECT_EQ(memory.find(in_page(9), sp).kind, TouchedKind::anonymous);
    EXPECT_EQ(memory.find(in_page(22), sp).kind, TouchedKind::anonymous);
    EXPECT_EQ(memory.find(in_page(34), sp).kind, TouchedKind::anonymous);
    // Only a part of a piece: that one is gone.
    memory.add(pages(8, 9), FileOffset(0), "//anon", true);
    EXPECT_EQ(memory.find(in_page(9), sp).kind, TouchedKind::stack);
    // Another stack, where several pieces were.
    memory.add(pages(0, 40), FileOffset(0), "//anon", false);
    EXPECT_EQ(memory.find(in_page(34), sp).kind, TouchedKind::stack);
}

TEST(TouchedMemory, ADeletedFileKeepsItsName) {
    TouchedMemory memory;
    memory.add(pages(1, 1), FileOffset(0), "/memfd:x (deleted)", false);
    EXPECT_EQ(memory.find(in_page(1), kNoSp).file, "/memfd:x");
}

TEST(TouchedMemory, AThreadsStackIsWhereItsStackPointerIs) {
    TouchedMemory memory;
    memory.add({0x10000000, 0x20000000}, FileOffset(0), "", false);
    const RemoteAddr sp(0x18000000);
    EXPECT_EQ(memory.find(sp, sp).kind, TouchedKind::stack);
    EXPECT_EQ(memory.find(sp - 4096, sp).kind, TouchedKind::stack);
    EXPECT_EQ(memory.find(sp + 100000, sp).kind, TouchedKind::stack);
    EXPECT_EQ(memory.find(sp - (1 << 20), sp).kind, TouchedKind::anonymous);
    EXPECT_EQ(memory.find(sp + (64 << 20), sp).kind, TouchedKind::anonymous);
    // Next to it, but not in the same mapping.
    memory.add({0x18001000, 0x18002000}, FileOffset(0), "", false);
    EXPECT_EQ(memory.find(RemoteAddr(0x18001000), sp).kind, TouchedKind::anonymous);
}

} // namespace
} // namespace memleax
