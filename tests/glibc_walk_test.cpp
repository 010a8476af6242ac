// SPDX-License-Identifier: GPL-3.0-or-later
// Heaps of glibc 2.31 to 2.41, made by hand as malloc/malloc.c and malloc/arena.c of these versions
// lay them out: found, and walked; and refused by the self-check if they are read as another
// version's.
#include "../src/heap/glibc_walk.hpp"

#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "fake_memory_support.hpp"

namespace memleax {
namespace {

using Address = std::uint64_t;

constexpr Address kData = 0x7f0000000000;
constexpr Address kMainArena = kData + 0x800;
constexpr Address kHeap = 0x555500000000;
constexpr Address kOtherHeap = 0x7f1000000000;
constexpr Address kMapped = 0x7f2000000000;
constexpr Address kTls = 0x7f3000000000;
constexpr Address kThreadPointer = kTls + 0x800;
constexpr Address kHeapBytes = 0x21000;
constexpr Address kMappedBytes = 0x30000; // whole pages of 4, 16 and 64 KiB

using testing::FakeMemory;
using ::testing::HasSubstr;

Mapping mapping(Address begin, std::uint64_t size, const std::string& path = "") {
    Mapping result;
    result.range = {begin, begin + size};
    result.readable = result.writable = true;
    result.path = path;
    return result;
}

/// Where the members are in the versions of a kind. The figures are written down here once more,
/// not taken from what is tested.
struct Kind {
    const char* name;
    const glibc::Layout* layout;
    bool hides_links;
    std::uint64_t heap_info;
    std::uint64_t n_mmaps;
    std::uint64_t max_n_mmaps;
    std::uint64_t mmapped_mem;
    std::uint64_t sbrk_base;
    std::uint64_t tcache_bins;
};
constexpr Kind kKinds[] = {{"2.31", &glibc::kLayout31, false, 32, 40, 48, 56, 72, 80},
                           {"2.32 to 2.34", &glibc::kLayout32, true, 32, 40, 48, 56, 72, 80},
                           {"2.35 to 2.41", &glibc::kLayout35, true, 48, 60, 68, 80, 96, 104}};

std::vector<AddrRange> everything(AddrRange range) {
    return {range};
}

class FakeHeap {
  public:
    /// With a free chunk in each of so many bins, the last ones, besides that in the first.
    /// And with so many live blocks that look like a thread's cache without any blocks.
    explicit FakeHeap(const Kind& kind, std::uint64_t filled_bins = 0,
                      std::uint64_t like_caches = 0)
        : kind_(kind), filled_bins_(filled_bins), like_caches_(like_caches),
          main_bytes_(kHeapBytes + like_caches * 0x290) {
        memory.map(kData, 0x4000);
        memory.map(kHeap, main_bytes_);
        memory.map(kOtherHeap, kHeapBytes);
        memory.map(kMapped, kMappedBytes);
        memory.map(kTls, 0x1000);
        mappings = {mapping(kHeap, main_bytes_, "[heap]"), mapping(kData, 0x4000),
                    mapping(kOtherHeap, kHeapBytes), mapping(kMapped, kMappedBytes),
                    mapping(kTls, 0x1000)};
        module.range = {kData, kData + 0x4000};
        make_parameters();
        make_main_arena();
        make_other_arena();
        memory.put(kMapped + 8, kMappedBytes | 2);
        live.push_back({RemoteAddr(kMapped + 16), kMappedBytes - 16});
    }

    /// Read as that version's. "": the books agree, and `found` has the blocks.
    std::string read_as(const glibc::Layout& layout) {
        const auto places = find_glibc_places({&module, &layout, {}}, mappings, memory, everything);
        if (!places) {
            return places.error().message();
        }
        pointers.push_back(kThreadPointer);
        GlibcWalk walk(memory, *places, {mappings, pointers, everything});
        if (!walk.run()) {
            return walk.why();
        }
        found = walk.take_blocks();
        return "";
    }

    /// The chunk that `filled_bins` has put there.
    [[nodiscard]] Address chunk_in_bin(std::uint64_t number) {
        return memory.try_read_object<Address>(RemoteAddr(main_bin(number) + 16)).value();
    }

    FakeMemory memory;
    std::vector<Mapping> mappings;
    std::vector<std::uint64_t> pointers; ///< of threads that have no cache
    Module module;
    HeapBlocks live; ///< by address
    HeapBlocks found;

  private:
    static Address main_bin(std::uint64_t number) {
        return kMainArena + 112 + (number - 1) * 16 - 16;
    }

    void make_parameters() {
        const Address mp = kData + 0x100;
        memory.put(mp, 128 << 10);      // trim_threshold
        memory.put(mp + 8, 128 << 10);  // top_pad
        memory.put(mp + 16, 128 << 10); // mmap_threshold
        memory.put(mp + 24, 8);         // arena_test
        memory.put_half(mp + kind_.n_mmaps, 1);
        memory.put_half(mp + kind_.n_mmaps + 4, 65536);
        memory.put_half(mp + kind_.max_n_mmaps, 3);
        memory.put(mp + kind_.mmapped_mem, kMappedBytes);
        memory.put(mp + kind_.mmapped_mem + 8, 3 * kMappedBytes);
        memory.put(mp + kind_.sbrk_base, kHeap);
        memory.put(mp + kind_.tcache_bins, 64);
        memory.put(mp + kind_.tcache_bins + 8, 1032);
        memory.put(mp + kind_.tcache_bins + 16, 7);
    }

    void make_bins(Address arena) {
        for (std::uint64_t bin = 1; bin <= 127; ++bin) {
            const Address self = arena + 112 + (bin - 1) * 16 - 16;
            memory.put(self + 16, self);
            memory.put(self + 24, self);
        }
    }

    /// A chunk's header; returns the block's address.
    Address chunk(std::uint64_t size, std::uint64_t flags = 1) {
        const Address at = next_;
        memory.put(at + 8, size | flags);
        next_ += size;
        return at + 16;
    }
    void live_chunk(std::uint64_t size, std::uint64_t flags = 1) {
        const Address block = chunk(size, flags);
        live.push_back({RemoteAddr(block), size - 8});
    }
    [[nodiscard]] std::uint64_t stored(Address place, std::uint64_t link) const {
        return kind_.hides_links ? (place >> 12) ^ link : link;
    }

    /// A free chunk, the only one of the main arena's bin, and a live one behind it.
    void put_into_bin(std::uint64_t number, std::uint64_t size) {
        const Address bin = main_bin(number);
        const Address free = chunk(size) - 16;
        memory.put(next_, size); // prev_size
        live_chunk(0x40, 0);
        memory.put(bin + 16, free);
        memory.put(bin + 24, free);
        memory.put(free + 16, bin);
        memory.put(free + 24, bin);
    }

    void make_main_arena() {
        make_bins(kMainArena);
        next_ = kHeap;
        const Address cache = chunk(0x290);
        live_chunk(0x30);
        const Address first = chunk(0x20);
        const Address second = chunk(0x20);
        const Address fast = chunk(0x40);
        put_into_bin(1, 0x500);
        for (std::uint64_t bin = 128 - filled_bins_; bin <= 127; ++bin) {
            put_into_bin(bin, 0x90);
        }
        // A thread's cache of two blocks.
        memory.put_short(cache, 2);
        memory.put(cache + 128, second);
        memory.put(second, stored(second, first));
        memory.put(second + 8, 0x1234567);
        memory.put(first, stored(first, 0));
        memory.put(first + 8, 0x1234567);
        memory.put(kThreadPointer - 0x40, cache);
        // A fast bin, of chunks of 64 bytes.
        memory.put(kMainArena + 16 + 2 * 8, fast - 16);
        memory.put(fast, stored(fast, 0));
        for (std::uint64_t i = 0; i < like_caches_; ++i) {
            live_chunk(0x290);
        }
        memory.put(kMainArena + 96, next_);
        memory.put(next_ + 8, (kHeap + main_bytes_ - next_) | 1);
        memory.put(kMainArena + 2160, kOtherHeap + kind_.heap_info);
        memory.put(kMainArena + 2176, 1);
        memory.put(kMainArena + 2184, main_bytes_);
        memory.put(kMainArena + 2192, main_bytes_);
    }

    void make_other_arena() {
        const Address arena = kOtherHeap + kind_.heap_info;
        memory.put(kOtherHeap, arena);
        memory.put(kOtherHeap + 16, kHeapBytes);
        memory.put(kOtherHeap + 24, kHeapBytes);
        make_bins(arena);
        next_ = ((arena + 2200 + 16 + 15) & ~15ULL) - 16;
        live_chunk(0x50, 5);
        memory.put(arena + 96, next_);
        memory.put(next_ + 8, (kOtherHeap + kHeapBytes - next_) | 1);
        memory.put(arena + 2160, kMainArena);
        memory.put(arena + 2176, 1);
        memory.put(arena + 2184, kHeapBytes);
        memory.put(arena + 2192, kHeapBytes);
    }

    const Kind& kind_;
    std::uint64_t filled_bins_;
    std::uint64_t like_caches_;
    std::uint64_t main_bytes_;
    Address next_ = 0;
};

TEST(GlibcWalkTest, HeapsOfEachVersion) {
    for (const Kind& kind : kKinds) {
        SCOPED_TRACE(kind.name);
        FakeHeap heap(kind);
        EXPECT_EQ(heap.read_as(*kind.layout), "");
        EXPECT_EQ(heap.found, heap.live);
    }
}

TEST(GlibcWalkTest, HeapsWithFewEmptyBins) {
    for (const Kind& kind : kKinds) {
        for (const std::uint64_t filled : {96, 111, 126}) {
            SCOPED_TRACE(fmt::format("{}, {}", kind.name, filled));
            FakeHeap heap(kind, filled);
            EXPECT_EQ(heap.read_as(*kind.layout), "");
            EXPECT_EQ(heap.found, heap.live);
        }
    }
}

TEST(GlibcWalkTest, FullBinsWhoseListsDoNotLeadBackAreNoArena) {
    for (const std::uint64_t link : {16, 24}) {
        FakeHeap heap(kKinds[2], 126);
        for (std::uint64_t bin = 2; bin <= 127; ++bin) {
            heap.memory.put(heap.chunk_in_bin(bin) + link, kHeap);
        }
        EXPECT_THAT(heap.read_as(*kKinds[2].layout), HasSubstr("0 places that look like malloc's"));
    }
}

// 16 bytes before it the same bins are found, but for one, which is top and last_remainder. The map
// of bins is in the place of the next arena.
TEST(GlibcWalkTest, AnArenaIsNotFoundBesideItself) {
    for (const Kind& kind : kKinds) {
        SCOPED_TRACE(kind.name);
        FakeHeap heap(kind);
        heap.memory.put(kMainArena + 104, kHeap + 0x290);   // last_remainder
        heap.memory.put(kMainArena + 2144, kind.heap_info); // binmap: bin 5, or 4 and 5
        EXPECT_EQ(heap.read_as(*kind.layout), "");
        EXPECT_EQ(heap.found, heap.live);
    }
}

// A word of a thread's may be the address of its cache, and so may be any block of zeros of that
// size. Compared one by one these are 10^11 pairs, minutes of work while a process stands still.
TEST(GlibcWalkTest, ManyThreadsAndManyBlocksThatLookLikeCaches) {
    constexpr Address kStacks = 0x7f4000000000;
    constexpr std::uint64_t kStacksBytes = 0x20000;
    constexpr std::uint64_t kThreads = 400;
    constexpr std::uint64_t kBlocks = 100000;
    FakeHeap heap(kKinds[2], 0, kBlocks);
    heap.memory.map(kStacks, kStacksBytes);
    heap.mappings.push_back(mapping(kStacks, kStacksBytes));
    for (Address at = kStacks; at < kStacks + kStacksBytes; at += 8) {
        heap.memory.put(at, at % 16); // no cache's address
    }
    for (std::uint64_t thread = 0; thread < kThreads; ++thread) {
        heap.pointers.push_back(kStacks + kStacksBytes / 2 + thread * 16);
    }
    EXPECT_EQ(heap.read_as(*kKinds[2].layout), "");
    EXPECT_EQ(heap.found, heap.live);
}

// What memalign has given out is a part of a mapped chunk. realloc has that grown or cut, and only
// the part says how long it is then.
TEST(GlibcWalkTest, AnAlignedMappedBlockWhoseChunkHasAnotherLengthNow) {
    constexpr Address kLead = 0x1000 - 16;
    for (const Kind& kind : kKinds) {
        for (const std::uint64_t before :
             {kMappedBytes - 0x10000, kMappedBytes, 4 * kMappedBytes}) {
            SCOPED_TRACE(fmt::format("{}, {:#x}", kind.name, before));
            FakeHeap heap(kind);
            heap.memory.put(kMapped + 8, before | 2);
            heap.memory.put(kMapped + kLead, kLead);
            heap.memory.put(kMapped + kLead + 8, (kMappedBytes - kLead) | 2);
            heap.live.back() = {RemoteAddr(kMapped + kLead + 16), kMappedBytes - kLead - 16};
            EXPECT_EQ(heap.read_as(*kind.layout), "");
            EXPECT_EQ(heap.found, heap.live);
        }
    }
}

/// Counts what is read.
class CountingReader final : public MemoryReader {
  public:
    explicit CountingReader(FakeMemory& memory) : memory_(memory) {}
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        ++reads;
        return memory_.try_read(from, out);
    }
    int reads = 0;

  private:
    FakeMemory& memory_;
};

// A program that has such memory must not keep us busy, nor stand still for long.
TEST(GlibcWalkTest, MemoryThatMayBeAnArenaAtEachWordIsSoonDoneWith) {
    constexpr Address kLowHeap = 0x54000000;
    constexpr std::uint64_t kBytes = 1 << 20;
    constexpr int kMostReads = 20000;
    FakeMemory memory;
    memory.map(kLowHeap, kHeapBytes);
    memory.map(kData, kBytes);
    for (Address at = kData; at < kData + kBytes; at += 8) {
        memory.put(at, kLowHeap + 48); // chunk, arena, and flags; it lies 48 bytes behind 64 MiB
    }
    const std::vector<Mapping> mappings{mapping(kLowHeap, kHeapBytes, "[heap]"),
                                        mapping(kData, kBytes)};
    Module module;
    module.range = {kData, kData + kBytes};
    CountingReader reader(memory);
    EXPECT_FALSE(find_glibc_places({&module, &glibc::kLayout35, {}}, mappings, reader, everything));
    EXPECT_GT(reader.reads, 100); // it is looked at
    EXPECT_LT(reader.reads, kMostReads);
}

TEST(GlibcWalkTest, TheBooksDoNotAgreeIfTheyAreReadAsAnotherVersions) {
    for (const Kind& kind : kKinds) {
        for (const Kind& other : kKinds) {
            if (&kind != &other) {
                SCOPED_TRACE(std::string(kind.name) + " as " + other.name);
                FakeHeap heap(kind);
                EXPECT_NE(heap.read_as(*other.layout), "");
            }
        }
    }
}

} // namespace
} // namespace memleax
