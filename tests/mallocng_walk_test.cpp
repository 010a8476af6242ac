// SPDX-License-Identifier: GPL-3.0-or-later
// A heap of musl's malloc, made by hand as src/malloc/mallocng/ lays it out: found, and walked; and
// each thing in it that does not agree with the others is noticed.
#include "../src/heap/mallocng_walk.hpp"

#include <functional>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fake_memory_support.hpp"

namespace memleax {
namespace {

using testing::FakeMemory;
using Address = std::uint64_t;

constexpr Address kData = 0x7f0000000000;
constexpr Address kContext = kData + 0x840;
constexpr Address kDonated = kData + 0x2000;
constexpr Address kArea = 0x555500001000;
constexpr Address kMapped = 0x7f1000000000;
constexpr Address kOwnMapping = 0x7f2000000000;
constexpr std::uint64_t kOwnMappingBytes = 0x300000;
constexpr std::uint64_t kSecret = 0x1234'5678'9abc'def0;
constexpr Address kNested = kMapped + 16 + 4 * 496;

constexpr Address meta(unsigned number) {
    return kArea + 24 + number * 40ULL;
}

class FakeMusl {
  public:
    FakeMusl() {
        memory.map(kData, 0x4000);
        memory.map(kArea, 0x1000);
        memory.map(kMapped, 0x1000);
        memory.map(kOwnMapping, kOwnMappingBytes);
        module.range = {kData, kData + 0x4000};
        make_context();
        make_mapped_group();
        make_nested_group();
        make_block_with_its_own_mapping();
        make_donated_group();
        memory.put(meta(4), meta(4)); // free: a ring of its own
        memory.put(meta(4) + 8, meta(4));
        memory.put(kContext + 16, meta(4));
    }

    /// "": the books agree, and `found` has the blocks.
    std::string read() {
        Mapping data;
        data.range = module.range;
        data.readable = data.writable = true;
        const std::vector mappings{data};
        const auto places = find_mallocng_places(
            {&module, {}}, mappings, memory, [](AddrRange range) { return std::vector{range}; });
        if (!places) {
            return places.error().message();
        }
        EXPECT_EQ(places->context, kContext);
        return walk(*places);
    }
    std::string walk(const MallocngPlaces& places) {
        WalkedHeap heap = MallocngWalk(memory, places).run();
        found = std::move(heap.blocks);
        return heap.why;
    }

    FakeMemory memory;
    Module module;
    HeapBlocks live; ///< by address
    HeapBlocks found;

  private:
    void make_context() {
        memory.put(kContext, kSecret);
        memory.put_half(kContext + 8, 1);
        memory.put(kContext + 24, meta(5));
        memory.put(kContext + 32, 101 - 5);
        memory.put(kContext + 56, kArea);
        memory.put(kContext + 64, kArea);
        memory.put(kContext + 920, kArea + 0x1000);
        memory.put(kArea, kSecret);
        memory.put_half(kArea + 16, 101);
    }
    void make_group(unsigned number, Address at, std::uint32_t available, std::uint32_t freed,
                    std::uint64_t last, std::uint64_t size_class, std::uint64_t pages,
                    bool freeable = true) {
        memory.put(meta(number) + 16, at);
        memory.put_half(meta(number) + 24, available);
        memory.put_half(meta(number) + 28, freed);
        memory.put(meta(number) + 32,
                   last | (freeable ? 32ULL : 0) | size_class << 6 | pages << 12);
        memory.put(at, meta(number));
        memory.put(at + 8, last);
        if (size_class < 48) { // it is in a ring
            memory.put(meta(number), meta(number));
            memory.put(meta(number) + 8, meta(number));
            memory.put(kContext + 80 + size_class * 8, meta(number));
            memory.put(kContext + 464 + size_class * 8, freeable ? last + 1 : 0);
        }
    }
    /// The word before a block, or before a slot.
    void in_band(Address at, std::uint32_t slot, std::uint32_t reserved, std::uint32_t offset) {
        memory.put_half(at - 4, slot << 8 | reserved << 13 | offset << 16);
    }

    // Eight slots of 496 bytes.
    void make_mapped_group() {
        constexpr std::uint64_t kSlot = 496;
        make_group(0, kMapped, 1U << 2, 1U << 3 | 7U << 5, 7, 15, 1);
        const Address first = kMapped + 16;
        in_band(first, 0, 0, 0); // all of the slot
        live.push_back({RemoteAddr(first), kSlot - 4});
        const Address second = first + kSlot;
        in_band(second, 0, 7, 2); // begins later
        in_band(second + 32, 1, 5, 31 + 2);
        memory.put_half(second + kSlot - 8, kSlot - 4 - 32 - 100);
        live.push_back({RemoteAddr(second + 32), 100});
        in_band(first + 3 * kSlot, 31, 7, 0); // free
        in_band(kNested, 4, 6, 4 * 31);
    }
    // Five slots of 96 bytes, of which one is taken.
    void make_nested_group() {
        make_group(1, kNested, 0x1e, 0, 4, 5, 0);
        in_band(kNested + 16, 0, 2, 0);
        live.push_back({RemoteAddr(kNested + 16), 90});
    }
    // Aligned so far that the distance from the first slot needs four bytes.
    void make_block_with_its_own_mapping() {
        constexpr std::uint32_t kOffset = 0x18000;
        make_group(2, kOwnMapping, 0, 0, 0, 63, kOwnMappingBytes >> 12);
        const Address slot = kOwnMapping + 16;
        const Address block = slot + kOffset * 16ULL;
        in_band(slot, 0, 7, kOffset & 0xffff);
        memory.put_half(block - 4, 1 | 5U << 13);
        memory.put_half(block - 8, kOffset);
        const Address end = kOwnMapping + kOwnMappingBytes - 4;
        memory.put_half(end - 4, 7);
        live.push_back({RemoteAddr(block), end - 7 - block});
    }
    void make_donated_group() {
        make_group(3, kDonated, 0, 1, 0, 3, 0, false);
        in_band(kDonated + 16, 31, 7, 0);
    }
};

TEST(MallocngWalkTest, BlocksOfAllKinds) {
    FakeMusl heap;
    EXPECT_EQ(heap.read(), "");
    EXPECT_EQ(heap.found, heap.live);
}

TEST(MallocngWalkTest, BeforeTheFirstCallOfMalloc) {
    FakeMusl heap;
    EXPECT_EQ(heap.walk({.context = kData + 0x3000, .code = {}}), "");
    EXPECT_EQ(heap.found, HeapBlocks());
}

TEST(MallocngWalkTest, WhatDoesNotAgreeIsNoticed) {
    struct Change {
        const char* what;
        std::function<void(FakeMemory&)> make;
    };
    const std::vector<Change> changes{
        {"a page's secret", [](auto& m) { m.put(kArea, kSecret + 1); }},
        {"a page's count", [](auto& m) { m.put_half(kArea + 16, 100); }},
        {"a page behind the last", [](auto& m) { m.put(kArea + 8, kArea + 0x1000); }},
        {"metas that are left", [](auto& m) { m.put(kContext + 32, 95); }},
        {"a group's meta", [](auto& m) { m.put(kMapped, meta(1)); }},
        {"a slot that is free twice", [](auto& m) { m.put_half(meta(0) + 28, 1U << 2 | 7U << 5); }},
        {"a slot that is not there", [](auto& m) { m.put_half(meta(1) + 24, 0x3e); }},
        {"a slot that is not active", [](auto& m) { m.put(kNested + 8, 3); }},
        {"a group larger than its mapping",
         [](auto& m) { m.put(meta(0) + 32, 8 | 32 | 15 << 6 | 1 << 12); }},
        {"a class", [](auto& m) { m.put(meta(0) + 32, 7 | 32 | 50 << 6 | 1 << 12); }},
        {"slots of a class", [](auto& m) { m.put(kContext + 464 + 15 * 8ULL, 7); }},
        {"a ring", [](auto& m) { m.put(meta(1), meta(0)); }},
        {"a ring that is left out", [](auto& m) { m.put(kContext + 80 + 5 * 8ULL, 0); }},
        {"a free meta that is in no list", [](auto& m) { m.put(kContext + 16, 0); }},
        {"a meta in use that is in the list", [](auto& m) { m.put(kContext + 16, meta(0)); }},
        {"a taken slot that looks free",
         [](auto& m) { m.put_half(kMapped + 16 - 4, 31 << 8 | 7U << 13); }},
        {"a free slot that is taken", [](auto& m) { m.put_half(meta(0) + 28, 7U << 5); }},
        {"a block's distance", [](auto& m) { m.put_half(kNested + 16 - 4, 2U << 13 | 1U << 16); }},
        {"a far block's distance",
         [](auto& m) { m.put_half(kOwnMapping + 16 + 0x180000 - 8, 0x18001); }},
        {"a slot with no group", [](auto& m) { m.put_half(kMapped + 16 - 4, 6U << 13); }},
        {"a group in no slot", [](auto& m) { m.put_half(kNested - 4, 4 << 8 | (4U * 31) << 16); }},
    };
    for (const Change& change : changes) {
        SCOPED_TRACE(change.what);
        FakeMusl heap;
        change.make(heap.memory);
        EXPECT_NE(heap.walk({.context = kContext, .code = {}}), "");
        EXPECT_TRUE(heap.found.empty());
    }
}

TEST(MallocngWalkTest, ASizeThatIsWrittenOverIsTheWholeSlots) {
    FakeMusl heap;
    heap.memory.put_half(kMapped + 16 + 2 * 496 - 8, 0x41414141);
    EXPECT_EQ(heap.read(), "");
    EXPECT_EQ(heap.found.at(1).size, 496 - 4 - 32);
}

TEST(MallocngPlacesTest, WhatLooksLikeOneInPartIsNone) {
    for (const Address place : {kContext, kContext + 8, kContext + 24, kContext + 56, kContext + 64,
                                kContext + 80, kContext + 920, kArea}) {
        SCOPED_TRACE(place);
        FakeMusl heap;
        heap.memory.put(place, 0x123456789);
        EXPECT_NE(heap.read(), "");
    }
}

TEST(MallocngPlacesTest, ThereMustBeNoOther) {
    FakeMusl heap;
    for (Address at = 0; at < 928; at += 8) {
        heap.memory.put(kData + 0x3000 + at,
                        *heap.memory.try_read_object<std::uint64_t>(RemoteAddr(kContext + at)));
    }
    EXPECT_NE(heap.read().find("there are 2 places"), std::string::npos);
}

} // namespace
} // namespace memleax
