// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/live_blocks.hpp"

#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace memleax {
namespace {

Block block(std::uint64_t address, std::int64_t time, std::uint64_t size = 8) {
    return {RemoteAddr(address), size, MonotonicNs(time), StackId(1), Tid(2), false};
}
void end(LiveBlocks& blocks, std::uint64_t address) {
    const auto id = blocks.take(RemoteAddr(address));
    ASSERT_TRUE(id);
    blocks.release(*id);
}
/// Addresses in the order in which they expire; they are expired by that.
std::vector<std::uint64_t> expire_all(LiveBlocks& blocks, std::int64_t latest) {
    std::vector<std::uint64_t> order;
    while (const auto id = blocks.next_to_expire(MonotonicNs(latest))) {
        order.push_back(blocks[*id].address.value());
        blocks.mark_expired(*id);
    }
    return order;
}
using Order = std::vector<std::uint64_t>;

TEST(LiveBlocks, KeepsWhatItIsGiven) {
    LiveBlocks blocks;
    const Block given{
        RemoteAddr(0x7fff12345670), 1ULL << 40, MonotonicNs(-5), StackId(7), Tid(9), false};
    const auto [id, inserted] = blocks.insert(given);
    EXPECT_TRUE(inserted);
    ASSERT_EQ(blocks.find(given.address), id);
    const Block got = blocks[id];
    EXPECT_EQ(got.address, given.address);
    EXPECT_EQ(got.size, given.size);
    EXPECT_EQ(got.time, given.time);
    EXPECT_EQ(got.stack, given.stack);
    EXPECT_EQ(got.tid, given.tid);
    EXPECT_FALSE(got.expired);
    EXPECT_EQ(blocks.size(), 1U);
    EXPECT_EQ(blocks.bytes(), 1ULL << 40);
}

TEST(LiveBlocks, AnAddressIsThereOnce) {
    LiveBlocks blocks;
    const BlockId first = blocks.insert(block(0x10, 1)).first;
    const auto [id, inserted] = blocks.insert(block(0x10, 2));
    EXPECT_FALSE(inserted);
    EXPECT_EQ(id, first);
    EXPECT_EQ(blocks[id].time, MonotonicNs(1));
    EXPECT_EQ(blocks.size(), 1U);
}

TEST(LiveBlocks, RecordsAreUsedAgain) {
    LiveBlocks blocks;
    const BlockId first = blocks.insert(block(0x10, 1)).first;
    const auto taken = blocks.take(RemoteAddr(0x10));
    ASSERT_EQ(taken, first);
    EXPECT_FALSE(blocks.find(RemoteAddr(0x10)));
    EXPECT_EQ(blocks.size(), 1U); // until it is released
    blocks.release(*taken);
    EXPECT_EQ(blocks.size(), 0U);
    EXPECT_EQ(blocks.bytes(), 0U);
    EXPECT_EQ(blocks.insert(block(0x20, 2)).first, first);
}

TEST(LiveBlocks, ExpireInOrderOfAge) {
    LiveBlocks blocks;
    blocks.insert(block(0x10, 10));
    blocks.insert(block(0x30, 30));
    blocks.insert(block(0x20, 20)); // was delivered late
    blocks.insert(block(0x05, 5));
    blocks.insert(block(0x40, 40));
    EXPECT_EQ(blocks.oldest_young(), MonotonicNs(5));
    end(blocks, 0x10); // from the middle
    EXPECT_EQ(expire_all(blocks, 30), (Order{0x05, 0x20, 0x30}));
    EXPECT_EQ(expire_all(blocks, 39), Order{});
    EXPECT_EQ(blocks.oldest_young(), MonotonicNs(40));
    EXPECT_TRUE(blocks[*blocks.find(RemoteAddr(0x20))].expired);
    end(blocks, 0x40);
    EXPECT_EQ(blocks.oldest_young(), std::nullopt);
    end(blocks, 0x20); // one that is in no list any more
    EXPECT_EQ(blocks.size(), 2U);
}

TEST(LiveBlocks, PutBackIsAsBefore) {
    LiveBlocks blocks;
    blocks.insert(block(0x10, 10));
    blocks.insert(block(0x20, 20));
    blocks.insert(block(0x30, 30));
    const auto id = blocks.take(RemoteAddr(0x20));
    EXPECT_FALSE(blocks.find(RemoteAddr(0x20)));
    EXPECT_TRUE(blocks.put_back(*id));
    EXPECT_EQ(blocks.find(RemoteAddr(0x20)), id);
    EXPECT_EQ(expire_all(blocks, 100), (Order{0x10, 0x20, 0x30}));

    const auto expired = blocks.take(RemoteAddr(0x20));
    EXPECT_TRUE(blocks.put_back(*expired));
    EXPECT_TRUE(blocks[*expired].expired);
    EXPECT_EQ(expire_all(blocks, 100), Order{}); // once only
}

TEST(LiveBlocks, ATakenBlockDoesNotExpireUntilItIsBack) {
    LiveBlocks blocks;
    blocks.insert(block(0x10, 10));
    blocks.insert(block(0x15, 15));
    blocks.insert(block(0x20, 20));
    const auto first = blocks.take(RemoteAddr(0x10));
    const auto second = blocks.take(RemoteAddr(0x15));
    EXPECT_EQ(expire_all(blocks, 18), Order{});
    EXPECT_EQ(blocks.oldest_young(), MonotonicNs(20));
    EXPECT_TRUE(blocks.put_back(*second));
    EXPECT_TRUE(blocks.put_back(*first));
    EXPECT_EQ(expire_all(blocks, 20), (Order{0x10, 0x15, 0x20}));
}

TEST(LiveBlocks, ATakenBlockThatWasPassedOverCanEnd) {
    LiveBlocks blocks;
    blocks.insert(block(0x10, 10));
    const auto id = blocks.take(RemoteAddr(0x10));
    EXPECT_EQ(expire_all(blocks, 50), Order{});
    blocks.release(*id);
    blocks.insert(block(0x20, 20));
    EXPECT_EQ(expire_all(blocks, 50), Order{0x20});
}

TEST(LiveBlocks, CannotBePutBackOnAnother) {
    LiveBlocks blocks;
    blocks.insert(block(0x10, 10));
    const auto old = blocks.take(RemoteAddr(0x10));
    EXPECT_TRUE(blocks.insert(block(0x10, 20)).second);
    EXPECT_FALSE(blocks.put_back(*old));
    EXPECT_EQ(blocks[*blocks.find(RemoteAddr(0x10))].time, MonotonicNs(20));
    blocks.release(*old);
    EXPECT_EQ(blocks.size(), 1U);
    EXPECT_EQ(expire_all(blocks, 50), Order{0x10});
}

TEST(LiveBlocks, ForEachSeesTakenOnesAndNoneThatEnded) {
    LiveBlocks blocks;
    for (const std::uint64_t address : {0x10, 0x20, 0x30}) {
        blocks.insert(block(address, 1));
    }
    end(blocks, 0x20);
    blocks.take(RemoteAddr(0x30));
    std::set<std::uint64_t> seen;
    blocks.for_each([&](const Block& b) { seen.insert(b.address.value()); });
    EXPECT_EQ(seen, (std::set<std::uint64_t>{0x10, 0x30}));
}

TEST(LiveBlocks, AreReadInPieces) {
    LiveBlocks blocks;
    for (std::uint64_t i = 0; i < 10; ++i) {
        blocks.insert(block(16 * (i + 1), 0));
    }
    end(blocks, 16 * 4);
    EXPECT_EQ(blocks.used(), 10U);
    std::vector<std::uint64_t> seen;
    for (std::uint32_t begin = 0; begin < blocks.used(); begin += 4) {
        blocks.for_each(begin, begin + 4,
                        [&](const Block& b) { seen.push_back(b.address.value() / 16); });
    }
    EXPECT_EQ(seen, (std::vector<std::uint64_t>{1, 2, 3, 5, 6, 7, 8, 9, 10}));
}

TEST(LiveBlocks, Clear) {
    LiveBlocks blocks;
    for (std::uint64_t i = 1; i <= 20'000; ++i) {
        blocks.insert(block(16 * i, 0));
    }
    blocks.take(RemoteAddr(16));
    end(blocks, 32);
    blocks.mark_expired(*blocks.find(RemoteAddr(64)));
    EXPECT_EQ(blocks.expired(), 1U);
    blocks.clear();
    EXPECT_EQ(blocks.size(), 0U);
    EXPECT_EQ(blocks.expired(), 0U);
    EXPECT_EQ(blocks.bytes(), 0U);
    EXPECT_EQ(blocks.used(), 0U);
    EXPECT_FALSE(blocks.find(RemoteAddr(48)));
    EXPECT_EQ(blocks.oldest_young(), std::nullopt);
    EXPECT_TRUE(blocks.insert(block(16, 5)).second);
    EXPECT_EQ(expire_all(blocks, 5), Order{16});
}

// As it was, but for the numbers of its records; and new ones find room.
TEST(LiveBlocks, CompactKeepsEachBlock) {
    LiveBlocks blocks;
    constexpr std::uint64_t kCount = 20'000; // three chunks
    for (std::uint64_t i = 1; i <= kCount; ++i) {
        blocks.insert(block(i * 16, static_cast<std::int64_t>(i), i));
    }
    const Order expired = expire_all(blocks, 1000);
    EXPECT_EQ(expired.size(), 1000U);
    for (std::uint64_t i = 1; i <= kCount; ++i) {
        if (i % 100 != 0) {
            end(blocks, i * 16);
        }
    }
    const std::uint64_t bytes = blocks.bytes();
    blocks.compact();
    EXPECT_EQ(blocks.used(), 200U);
    EXPECT_EQ(blocks.size(), 200U);
    EXPECT_EQ(blocks.expired(), 10U);
    EXPECT_EQ(blocks.bytes(), bytes);
    EXPECT_EQ(blocks.oldest_young(), MonotonicNs(1100));
    for (std::uint64_t i = 100; i <= kCount; i += 100) {
        const auto id = blocks.find(RemoteAddr(i * 16));
        ASSERT_TRUE(id) << i;
        EXPECT_EQ(blocks[*id].size, i);
        EXPECT_EQ(blocks[*id].time, MonotonicNs(static_cast<std::int64_t>(i)));
        EXPECT_EQ(blocks[*id].expired, i <= 1000);
        EXPECT_FALSE(blocks.find(RemoteAddr(i * 16 + 16)));
    }
    blocks.compact(); // again: nothing to be done
    blocks.insert(block(8, 5'000));
    for (std::uint64_t i = 1; i <= kCount; ++i) {
        blocks.insert(block(kCount * 16 + i * 16, static_cast<std::int64_t>(kCount + i)));
    }
    EXPECT_EQ(blocks.size(), kCount + 201);
    const Order order = expire_all(blocks, 6'000);
    ASSERT_EQ(order.size(), 51U);
    EXPECT_EQ(order.front(), 1100U * 16);
    EXPECT_EQ(order.back(), 6000U * 16);
    EXPECT_TRUE(blocks.find(RemoteAddr(8)));
}

TEST(LiveBlocks, CompactLeavesABlockThatIsTaken) {
    LiveBlocks blocks;
    blocks.insert(block(0x10, 1));
    blocks.insert(block(0x20, 2));
    end(blocks, 0x10);
    const auto id = blocks.take(RemoteAddr(0x20));
    ASSERT_TRUE(id);
    blocks.compact();
    EXPECT_TRUE(blocks.put_back(*id));
    EXPECT_EQ(blocks.find(RemoteAddr(0x20)), id);
    blocks.compact();
    EXPECT_EQ(blocks.used(), 1U);
    end(blocks, 0x20);
    blocks.compact();
    EXPECT_EQ(blocks.used(), 0U);
    EXPECT_TRUE(blocks.insert(block(0x30, 3)).second);
}

TEST(LiveBlocks, ManyChunks) {
    LiveBlocks blocks;
    constexpr std::uint64_t count = 50000;
    for (std::uint64_t i = 1; i <= count; ++i) {
        ASSERT_TRUE(
            blocks.insert(block(0x7f0000000000 + i * 16, static_cast<std::int64_t>(i), i)).second);
    }
    EXPECT_EQ(blocks.bytes(), count * (count + 1) / 2);
    for (std::uint64_t i = 1; i <= count; ++i) {
        const auto id = blocks.find(RemoteAddr(0x7f0000000000 + i * 16));
        ASSERT_TRUE(id);
        ASSERT_EQ(blocks[*id].size, i);
    }
    EXPECT_EQ(expire_all(blocks, count).size(), count);
}

} // namespace
} // namespace memleax
