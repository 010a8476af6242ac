// SPDX-License-Identifier: GPL-3.0-or-later
// What is known of places, and when it is forgotten; random sequences against a plain model.
#include "memleax/track/block_checker.hpp"

#include <map>
#include <random>

#include <gtest/gtest.h>

namespace memleax {
namespace {

constexpr auto kC = AllocatedBy::c;
const StackId kAlloc(1);
const StackId kFree(2);

RemoteAddr at(std::uint64_t address) {
    return RemoteAddr(address);
}

void end_and_remember(BlockChecker& checker, std::uint64_t address, std::uint64_t size) {
    checker.remove(at(address));
    checker.remember(at(address), size, kAlloc, kFree);
}

TEST(BlockChecker, FindsWhatAnAddressLiesIn) {
    BlockChecker checker;
    checker.add(at(100), 50, AllocatedBy::array_new);
    EXPECT_EQ(checker.live_around(at(149)), at(100));
    EXPECT_EQ(checker.live_around(at(150)), std::nullopt);
    EXPECT_EQ(checker.live_around(at(99)), std::nullopt);
    EXPECT_EQ(checker.allocated_by(at(100)), AllocatedBy::array_new);
    EXPECT_EQ(checker.remove(at(100)), AllocatedBy::array_new);
    EXPECT_EQ(checker.remove(at(100)), AllocatedBy::unclear);
    checker.remember(at(100), 50, kAlloc, kFree);
    EXPECT_EQ(checker.live_around(at(120)), std::nullopt);
    const auto freed = checker.freed_around(at(120));
    ASSERT_TRUE(freed.found);
    EXPECT_EQ(freed.address, at(100));
    EXPECT_EQ(freed.size, 50U);
    EXPECT_EQ(freed.alloc_stack, kAlloc);
    EXPECT_EQ(freed.free_stack, kFree);
}

TEST(BlockChecker, MemoryThatIsGivenOutAgainIsNotFreed) {
    BlockChecker checker;
    checker.add(at(100), 50, kC);
    end_and_remember(checker, 100, 50);
    checker.add(at(140), 4, kC); // a part is enough
    EXPECT_FALSE(checker.freed_around(at(100)).found);
    end_and_remember(checker, 140, 4);
    checker.forget(at(142)); // somebody else has it
    EXPECT_FALSE(checker.freed_around(at(140)).found);
}

TEST(BlockChecker, APoolIsForgotten) {
    BlockChecker checker;
    checker.add(at(1000), 1000, kC);
    checker.add(at(1100), 10, kC);
    EXPECT_EQ(checker.live_around(at(1500)), std::nullopt);
    EXPECT_EQ(checker.live_around(at(1105)), at(1100));
}

TEST(BlockChecker, WhatOthersHaveIsNotRemembered) {
    BlockChecker checker;
    checker.add(at(100), 50, kC);
    checker.remove(at(100));
    checker.add(at(120), 8, kC); // before the end was told
    checker.remember(at(100), 50, kAlloc, kFree);
    EXPECT_FALSE(checker.freed_around(at(100)).found);
    EXPECT_EQ(checker.live_around(at(121)), at(120));
}

TEST(BlockChecker, ABlockOfNoBytesHasItsAddress) {
    BlockChecker checker;
    checker.add(at(100), 0, kC);
    checker.add(at(101), ~std::uint64_t{0}, kC); // nor does one reach around
    EXPECT_EQ(checker.live_around(at(100)), at(100));
    EXPECT_EQ(checker.live_around(at(5000)), at(101));
}

TEST(BlockChecker, KeepsTheLastOnes) {
    BlockChecker checker(4);
    for (std::uint64_t address = 100; address < 1000; address += 100) {
        checker.add(at(address), 50, kC);
        end_and_remember(checker, address, 50);
    }
    for (std::uint64_t address = 100; address < 1000; address += 100) {
        EXPECT_EQ(checker.freed_around(at(address)).found, address >= 600) << address;
    }
}

// The state of each of 200 places: whose it is, as a model of one entry for each byte.
TEST(BlockChecker, AgreesWithAModel) {
    constexpr std::uint64_t kPlaces = 200;
    BlockChecker checker;
    std::map<std::uint64_t, std::uint64_t> live; // begin, end
    std::map<std::uint64_t, std::uint64_t> freed;
    const auto erase = [](auto& map, std::uint64_t begin, std::uint64_t end) {
        std::erase_if(map, [&](const auto& e) { return e.first < end && e.second > begin; });
    };
    const auto find = [](const auto& map, std::uint64_t place) -> std::uint64_t {
        for (const auto& [begin, end] : map) {
            if (begin <= place && place < end) {
                return begin;
            }
        }
        return 0;
    };
    std::mt19937 random(7); // NOLINT: the same each time
    for (int i = 0; i < 3000; ++i) {
        const std::uint64_t begin = 1 + random() % kPlaces;
        const std::uint64_t size = 1 + random() % 20;
        if (random() % 2 == 0) {
            checker.add(at(begin), size, kC);
            erase(live, begin, begin + size);
            erase(freed, begin, begin + size);
            live[begin] = begin + size;
        } else if (const auto it = live.lower_bound(begin); it != live.end()) {
            const auto [first, end] = *it;
            live.erase(it);
            checker.remove(at(first));
            checker.remember(at(first), end - first, kAlloc, kFree);
            erase(freed, first, end);
            freed[first] = end;
        }
        for (std::uint64_t place = 1; place < kPlaces + 20; ++place) {
            ASSERT_EQ(checker.live_around(at(place)).value_or(at(0)), at(find(live, place)));
            const auto known = checker.freed_around(at(place));
            ASSERT_EQ(known.found ? known.address : at(0), at(find(freed, place)));
        }
    }
}

} // namespace
} // namespace memleax
