// SPDX-License-Identifier: GPL-3.0-or-later
// What of a process's memory is jemalloc's own? Books that are made by hand, and changed in one
// place after the other.
#include "../src/heap/jemalloc_books.hpp"

#include <cstdint>
#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "fake_memory_support.hpp"
#include "thread_area.hpp"

namespace memleax {
namespace {

constexpr std::uint64_t kBase = 0x7f0000200000;
constexpr std::uint64_t kExtent = kBase + 0x400;
constexpr std::uint64_t kStacks = 0x7f0000601000;
constexpr std::uint64_t kBins = 0x7f0000701028;
constexpr std::uint64_t kPointer = arch::kTlsIsAbovePointer ? 0x7f0000700800 : 0x7f0000702800;
constexpr std::uint64_t kBinCount = 12;
constexpr std::uint64_t kPlaces = 20; ///< of each bin

class JemallocBooks : public ::testing::Test {
  protected:
    JemallocBooks() {
        memory_.map(kBase, 0x200000);
        memory_.put(kBase, 0x200000);
        memory_.put(kBase + 16, 0xe80afff);
        memory_.put(kBase + 24, kBase + 0x10000);
        memory_.put(kBase + 32, 0x1f0000);
        memory_.put(kExtent, 0x30a001); // of arena 1
        memory_.put(kExtent + 8, 0x7f0000800000);
        memory_.put(kExtent + 16, 0x5001);
        memory_.map(kStacks, 0x2000);
        memory_.put(kStacks, 0x7a7a7a7a7a7a7a7a);
        memory_.map(kBins - 0x1028, 0x3000);
        memory_.put(kBins - 8, kSlow);
        memory_.put(kSlow + 32, kBins);
        memory_.put(kSlow + 40, kBase + 0x800);
        std::uint64_t full = kStacks + 8;
        for (std::uint64_t i = 0; i < kBinCount; ++i) {
            const std::uint64_t empty = full + 8 * kPlaces;
            put_bin(i, full + 8 * i, full, empty);
            full = empty;
        }
        end_ = full;
        memory_.put(end_, 0xa7a7a7a7a7a7a7a7);
    }

    void put_bin(std::uint64_t number, std::uint64_t head, std::uint64_t full,
                 std::uint64_t empty) {
        memory_.put(kBins + 24 * number, head);
        memory_.put(kBins + 24 * number + 16,
                    (full & 0xffff) << 16 | (empty & 0xffff) << 32 | (empty & 0xffff));
    }

    std::vector<AddrRange> find() {
        std::vector<Mapping> mappings(3);
        mappings[0].range = {kBase, kBase + 0x200000};
        mappings[1].range = {kStacks, kStacks + 0x2000};
        mappings[2].range = {kBins - 0x1028, kBins - 0x1028 + 0x3000};
        for (Mapping& mapping : mappings) {
            mapping.readable = mapping.writable = true;
        }
        std::vector<ThreadView> threads(1);
        threads[0].thread_pointer = kPointer;
        return find_jemalloc_books(memory_, mappings, pages_, threads);
    }

    static constexpr std::uint64_t kSlow = kBins - 0x400;
    testing::FakeMemory memory_;
    PresentPages pages_{Tid(-1)}; // nobody's pages: all are taken for present
    std::uint64_t end_ = 0;
};

std::vector<std::pair<std::uint64_t, std::uint64_t>> pairs(const std::vector<AddrRange>& ranges) {
    std::vector<std::pair<std::uint64_t, std::uint64_t>> result;
    result.reserve(ranges.size());
    for (const AddrRange& range : ranges) {
        result.emplace_back(range.begin, range.end);
    }
    return result;
}

TEST_F(JemallocBooks, ExtentsBeginsAndStacksOfCachesAreFound) {
    using Pairs = std::vector<std::pair<std::uint64_t, std::uint64_t>>;
    EXPECT_EQ(pairs(find()), (Pairs{{kExtent + 8, kExtent + 16}, {kStacks, end_ + 8}}));
}

TEST_F(JemallocBooks, HooksOfTheProgramsAreNone) {
    memory_.put(kExtent, 0xfff); // the highest number of an arena
    EXPECT_EQ(find().size(), 1U);
}

TEST_F(JemallocBooks, WhatLooksOtherwiseIsNone) {
    const struct {
        std::uint64_t at;
        std::uint64_t word;
    } changes[] = {
        {kBase, 0x200001},
        {kBase, 0x400000}, // beyond its mapping
        {kBase + 8, 0x1000},
        {kBase + 16, 0xe80aff0},
        {kBase + 16, 0x1000e80afff},
        {kBase + 24, kBase + 0x10010},
        {kBase + 32, 0x1f0008},
        {kExtent + 16, 1},
        {kExtent, 0x7f0000002000},
        {kStacks, 0},
        {end_, 0xa7a7a7a7a7a7a7a6},
        {kSlow + 32, kBins + 24},
        {kSlow + 40, 0},
        {kBins - 8, 0x1000},
        {kBins, kStacks + 9},
        {kBins + 24, 0},
        {kBins + 24 * (kBinCount - 1) + 16, 0},
    };
    for (const auto& change : changes) {
        std::uint64_t before = 0;
        ASSERT_TRUE(memory_.try_read(RemoteAddr(change.at),
                                     std::as_writable_bytes(std::span(&before, 1))) == 8);
        memory_.put(change.at, change.word);
        EXPECT_EQ(find().size(), 1U) << std::hex << change.at;
        memory_.put(change.at, before);
    }
    EXPECT_EQ(find().size(), 2U);
}

} // namespace
} // namespace memleax
