// SPDX-License-Identifier: GPL-3.0-or-later
// Large vectors: memory of their own, at multiples of a huge page, which goes back at once.
#include "memleax/base/large_vector.hpp"

#include <cerrno>
#include <cstdint>
#include <new>

#include <gtest/gtest.h>
#include <sys/mman.h>

namespace memleax {
namespace {

constexpr std::uint64_t kHugePage = 2U << 20;

bool is_mapped(const void* at) {
    const auto page = reinterpret_cast<std::uintptr_t>(at) & ~0xffffULL; // of whatever size
    return msync(reinterpret_cast<void*>(page), 1, MS_ASYNC) == 0 || errno != ENOMEM;
}

TEST(LargeVectorTest, KeepsWhatIsInItWhileItGrows) {
    LargeVector<std::uint32_t> numbers;
    for (std::uint32_t i = 0; i < 2'000'000; ++i) {
        numbers.push_back(i);
    }
    for (std::uint32_t i = 0; i < numbers.size(); ++i) {
        ASSERT_EQ(numbers[i], i);
    }
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(numbers.data()) % kHugePage, 0U);
    const LargeVector<std::uint32_t> copy = numbers;
    EXPECT_EQ(copy, numbers);
}

TEST(LargeVectorTest, ReturnsItsMemory) {
    LargeVector<char> bytes(4 * kHugePage + 1);
    const char* begin = bytes.data();
    bytes.back() = 'x';
    ASSERT_TRUE(is_mapped(begin));
    ASSERT_TRUE(is_mapped(&bytes.back()));
    const char* last = &bytes.back();
    bytes = LargeVector<char>();
    EXPECT_FALSE(is_mapped(begin));
    EXPECT_FALSE(is_mapped(last));
}

TEST(LargeVectorTest, LeavesNothingMappedBesides) {
    const LargeVector<char> bytes(4 * kHugePage - 1);
    const char* begin = bytes.data();
    // All of its last page is its own, and no more: the kernel may have put others there.
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(begin) % kHugePage, 0U);
    EXPECT_EQ(msync(const_cast<char*>(begin), 4 * kHugePage, MS_ASYNC), 0);
}

TEST(LargeVectorTest, SaysThatThereIsNoMemory) {
    LargeVector<std::uint64_t> much;
    EXPECT_THROW(much.reserve(much.max_size()), std::bad_alloc);
    EXPECT_TRUE(much.empty());
}

} // namespace
} // namespace memleax
