// SPDX-License-Identifier: GPL-3.0-or-later
// A copy of a process's memory (our own) tells what the process would have told.
#include "../src/heap/stored_memory.hpp"

#include <algorithm>
#include <cstring>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memleax/target/remote_memory.hpp"

namespace memleax {
namespace {

const std::uint64_t kPage = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));

/// Some pages of our own, private and anonymous, of which the second and the third are written to,
/// and so is the last.
class StoredMemoryTest : public testing::Test {
  protected:
    static constexpr std::uint64_t kPages = 8;

    void SetUp() override {
        begin_ = static_cast<char*>(mmap(nullptr, kPages * kPage, PROT_READ | PROT_WRITE,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        ASSERT_NE(begin_, MAP_FAILED);
        madvise(begin_, kPages * kPage, MADV_NOHUGEPAGE);
        write(1, 'b');
        write(2, 'c');
        write(7, 'h');
        mapping_.range = range(0, kPages);
        mapping_.readable = mapping_.writable = true;
        auto memory = RemoteMemory::open(Tid(getpid()));
        ASSERT_TRUE(memory);
        memory_.emplace(*std::move(memory));
    }
    void TearDown() override { munmap(begin_, kPages * kPage); }

    void write(std::uint64_t page, char with) { std::memset(begin_ + page * kPage, with, kPage); }
    [[nodiscard]] std::uint64_t at(std::uint64_t page) const {
        return reinterpret_cast<std::uint64_t>(begin_) + page * kPage;
    }
    [[nodiscard]] AddrRange range(std::uint64_t from, std::uint64_t to) const {
        return {at(from), at(to)};
    }
    std::optional<StoredMemory> copy() {
        const std::vector<AddrRange> ranges{mapping_.range};
        pages_.keep(ranges);
        auto stored = StoredMemory::reserve(Tid(getpid()), UINT64_MAX);
        EXPECT_TRUE(stored && stored->copy(*memory_, std::vector{mapping_}, pages_));
        return stored;
    }

    char* begin_ = nullptr;
    Mapping mapping_;
    std::optional<RemoteMemory> memory_;
    PresentPages pages_{Tid(getpid())};
};

std::string bytes(MemoryReader& memory, std::uint64_t from, std::size_t size) {
    std::string text(size, '?');
    text.resize(memory.try_read(RemoteAddr(from), std::as_writable_bytes(std::span(text))));
    return text;
}

TEST_F(StoredMemoryTest, TellsWhatWasThereThen) {
    auto stored = copy();
    write(1, 'x');
    write(0, 'x');
    munmap(begin_ + 7 * kPage, kPage);
    std::string all;
    for (const char page : std::string("\0bc\0\0\0\0h", kPages)) {
        all += std::string(kPage, page);
    }
    EXPECT_TRUE(bytes(*stored, at(0), kPages * kPage) == all);
    EXPECT_EQ(bytes(*stored, at(3) - 2, 4), std::string("cc\0\0", 4));
    EXPECT_EQ(bytes(*stored, at(kPages) - 2, 4), "hh") << "nothing is behind it";
    EXPECT_EQ(bytes(*stored, at(0) - 8, 16), "");
}

TEST_F(StoredMemoryTest, WhatIsAFilesIsNotZeroWhereItWasNotWritten) {
    mapping_.inode = 1;
    auto stored = copy();
    EXPECT_EQ(bytes(*stored, at(0), 1), "");
    EXPECT_EQ(bytes(*stored, at(2) - 1, 2), "bc");
    EXPECT_EQ(bytes(*stored, at(3) - 1, 2), "c");
}

TEST_F(StoredMemoryTest, NoPageIsMade) {
    copy();
    EXPECT_EQ(PresentPages(Tid(getpid())).in(mapping_.range, PresentPages::Kind::own),
              (std::vector{range(1, 3), range(7, 8)}));
}

TEST_F(StoredMemoryTest, PagesThatAreKeptAreThoseOfThen) {
    const std::vector<AddrRange> ranges{mapping_.range};
    pages_.keep(ranges);
    write(4, 'x');
    const auto own = [this](AddrRange of) { return pages_.in(of, PresentPages::Kind::own); };
    EXPECT_EQ(own(mapping_.range), (std::vector{range(1, 3), range(7, 8)}));
    EXPECT_EQ(own({at(2) + 8, at(5)}), (std::vector{range(2, 3)}));
    EXPECT_EQ(own({at(7) + 8, at(8)}), (std::vector{range(7, 8)}));
    pages_.keep({});
    EXPECT_EQ(own(range(0, 7)), (std::vector{range(1, 3), range(4, 5)}));
}

// The kernel tells of a guard as of a swapped page.
TEST_F(StoredMemoryTest, AGuardIsNoPage) {
    constexpr int kGuardInstall = 102; // MADV_GUARD_INSTALL, which libraries' headers may lack
    constexpr auto kGuard = std::uint64_t{1} << 58;
    if (madvise(begin_ + 2 * kPage, kPage, kGuardInstall) != 0) {
        GTEST_SKIP() << "this kernel has no guards within a mapping";
    }
    std::uint64_t entry = 0;
    const int pagemap = open("/proc/self/pagemap", O_RDONLY);
    ASSERT_EQ(pread(pagemap, &entry, sizeof entry, static_cast<off_t>(at(2) / kPage * 8)), 8);
    close(pagemap);
    if ((entry & kGuard) == 0) {
        GTEST_SKIP() << "this kernel does not tell of guards";
    }
    EXPECT_EQ(PresentPages(Tid(getpid())).in(mapping_.range, PresentPages::Kind::own),
              (std::vector{range(1, 2), range(7, 8)}));
    auto stored = copy();
    EXPECT_EQ(stored->short_reads(), 0U);
    EXPECT_EQ(bytes(*stored, at(7), 2), "hh");
}

/// A mapping of our own in which each page begins with its number.
Mapping numbered(void* begin, std::uint64_t size) {
    Mapping mapping;
    const auto address = reinterpret_cast<std::uint64_t>(begin);
    mapping.range = {address, address + size};
    mapping.readable = mapping.writable = true;
    for (std::uint64_t at = address; at < address + size; at += kPage) {
        *reinterpret_cast<std::uint64_t*>(at) = at / kPage; // NOLINT(performance-no-int-to-ptr)
    }
    return mapping;
}

// Large ones are copied by several threads. A file becomes shorter meanwhile: what is behind its
// end cannot be read, and all else has to be there.
TEST(StoredMemory, EachPageIsInItsPlace) {
    constexpr std::uint64_t kSize = 40U << 20;
    constexpr std::uint64_t kLeft = 11U << 20;
    const int file = memfd_create("shared", 0);
    ASSERT_EQ(ftruncate(file, kSize), 0);
    constexpr int kAccess = PROT_READ | PROT_WRITE;
    std::vector<Mapping> mappings{
        numbered(mmap(nullptr, kSize, kAccess, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), kSize),
        numbered(mmap(nullptr, kSize, kAccess, MAP_SHARED, file, 0), kSize)};
    const std::uint64_t shared = mappings[1].range.begin;
    mappings[1].shared = true;
    std::sort(mappings.begin(), mappings.end(),
              [](const auto& a, const auto& b) { return a.range.begin < b.range.begin; });
    auto memory = RemoteMemory::open(Tid(getpid()));
    ASSERT_TRUE(memory);
    PresentPages pages{Tid(getpid())};
    pages.keep(std::vector{mappings[0].range, mappings[1].range});
    auto stored = StoredMemory::reserve(Tid(getpid()), UINT64_MAX);
    ASSERT_EQ(ftruncate(file, kLeft), 0);
    ASSERT_TRUE(stored && stored->copy(*memory, mappings, pages));
    for (const Mapping& mapping : mappings) {
        const std::uint64_t end = mapping.shared ? shared + kLeft : mapping.range.end;
        for (std::uint64_t at = mapping.range.begin; at < mapping.range.end; at += kPage) {
            std::uint64_t number = 0;
            const std::size_t got =
                stored->try_read(RemoteAddr(at), std::as_writable_bytes(std::span(&number, 1)));
            ASSERT_EQ(got, at < end ? sizeof number : 0) << at - mapping.range.begin;
            ASSERT_EQ(number, at < end ? at / kPage : 0);
        }
    }
    for (const Mapping& mapping : mappings) {
        munmap(reinterpret_cast<void*>(mapping.range.begin), kSize); // NOLINT
    }
    close(file);
}

TEST_F(StoredMemoryTest, ThereMayBeNoRoom) {
    EXPECT_FALSE(StoredMemory::reserve(Tid(getpid()), kPage)) << "we have more";
    EXPECT_FALSE(StoredMemory::reserve(Tid(getpid()), 0));
}

} // namespace
} // namespace memleax
