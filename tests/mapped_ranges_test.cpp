// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/mapped_ranges.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "stress_support.hpp"

namespace memleax {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Piece = MappedRanges::Piece;

MappedMemory memory(std::uint64_t begin, std::uint64_t end, std::int64_t time = 0,
                    MemoryKind kind = MemoryKind::mmap) {
    return {{begin, end}, kind, StackId(1), Tid(2), MonotonicNs(time), 0, false};
}
void end_all(MappedRanges& ranges, const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces) {
        ranges.unmap(piece);
    }
}

TEST(MappedRanges, AHoleLeavesTwoPiecesOfOneMapping) {
    MappedRanges ranges;
    const MappingId id = ranges.insert(memory(0x1000, 0x9000));
    const auto cut = ranges.cut({0x3000, 0x5000});
    EXPECT_THAT(cut, ElementsAre(Piece{{0x3000, 0x5000}, id}));
    EXPECT_EQ(ranges[id].bytes, 0x8000U) << "not before it has ended";
    EXPECT_EQ(ranges.unmap(cut[0]).bytes, 0x6000U);
    EXPECT_THAT(ranges.pieces(),
                ElementsAre(Piece{{0x1000, 0x3000}, id}, Piece{{0x5000, 0x9000}, id}));
    EXPECT_EQ(ranges.find(RemoteAddr(0x2fff)), id);
    EXPECT_EQ(ranges.find(RemoteAddr(0x3000)), std::nullopt);
    EXPECT_EQ(ranges.covered({0x2000, 0x6000}), 0x2000U);
}

TEST(MappedRanges, ACutGoesThroughSeveral) {
    MappedRanges ranges;
    const MappingId a = ranges.insert(memory(0x1000, 0x3000));
    const MappingId b = ranges.insert(memory(0x3000, 0x4000));
    const MappingId c = ranges.insert(memory(0x6000, 0x8000));
    const auto cut = ranges.cut({0x2000, 0x7000});
    EXPECT_THAT(cut, ElementsAre(Piece{{0x2000, 0x3000}, a}, Piece{{0x3000, 0x4000}, b},
                                 Piece{{0x6000, 0x7000}, c}));
    end_all(ranges, cut);
    EXPECT_FALSE(ranges.mappings().contains(b));
    EXPECT_EQ(ranges[a].bytes + ranges[c].bytes, 0x2000U);
    EXPECT_THAT(ranges.cut({0x3000, 0x7000}), IsEmpty());
    EXPECT_THAT(ranges.cut({0x2000, 0x1000}), IsEmpty());
}

TEST(MappedRanges, WhatIsPutBackIsAsItWas) {
    MappedRanges ranges;
    ranges.insert(memory(0x1000, 0x3000));
    ranges.insert(memory(0x3000, 0x5000));
    const auto before = ranges.pieces();
    EXPECT_THAT(ranges.put_back(ranges.cut({0x2000, 0x4000})), IsEmpty());
    EXPECT_EQ(ranges.pieces(), before);
}

TEST(MappedRanges, WhatOthersHaveTakenMeanwhileStaysCut) {
    MappedRanges ranges;
    const MappingId a = ranges.insert(memory(0x1000, 0x9000));
    const auto cut = ranges.cut({0x1000, 0x9000});
    const MappingId b = ranges.insert(memory(0x3000, 0x4000));
    const auto lost = ranges.put_back(cut);
    EXPECT_THAT(lost, ElementsAre(Piece{{0x3000, 0x4000}, a}));
    end_all(ranges, lost);
    EXPECT_EQ(ranges[a].bytes, 0x7000U);
    EXPECT_THAT(ranges.pieces(), ElementsAre(Piece{{0x1000, 0x3000}, a}, Piece{{0x3000, 0x4000}, b},
                                             Piece{{0x4000, 0x9000}, a}));
}

TEST(MappedRanges, AnAttachmentIsKnownByItsBeginEvenIfThatIsGone) {
    MappedRanges ranges;
    ranges.insert(memory(0x1000, 0x2000, 0, MemoryKind::shm));
    const MappingId other = ranges.insert(memory(0x5000, 0x6000));
    const MappingId attached = ranges.insert(memory(0x2000, 0x5000, 0, MemoryKind::shm));
    end_all(ranges, ranges.cut({0x2000, 0x3000}));
    EXPECT_THAT(ranges.cut_mapping(MemoryKind::shm, RemoteAddr(0x3000)), IsEmpty());
    EXPECT_THAT(ranges.cut_mapping(MemoryKind::shm, RemoteAddr(0x2000)),
                ElementsAre(Piece{{0x3000, 0x5000}, attached}));
    EXPECT_THAT(ranges.cut_mapping(MemoryKind::shm, RemoteAddr(0x5000)), IsEmpty());
    EXPECT_EQ(ranges.find(RemoteAddr(0x5000)), other);
}

TEST(MappedRanges, ExpiresTheProgramsOwnInOrderOfAge) {
    MappedRanges ranges;
    const MappingId a = ranges.insert(memory(0x1000, 0x2000, 10));
    ranges.insert(memory(0x2000, 0x3000, 11, MemoryKind::allocator));
    ranges.insert(memory(0x3000, 0x4000, 12, MemoryKind::thread_stack));
    const MappingId b = ranges.insert(memory(0x4000, 0x5000, 13));
    EXPECT_EQ(ranges.next_to_expire(MonotonicNs(9)), std::nullopt);
    ASSERT_EQ(ranges.next_to_expire(MonotonicNs(20)), a);
    ranges.mark_expired(a);
    EXPECT_EQ(ranges.oldest_young(), MonotonicNs(13));
    end_all(ranges, ranges.cut({0x4000, 0x5000}));
    EXPECT_EQ(ranges.next_to_expire(MonotonicNs(20)), std::nullopt);
    EXPECT_FALSE(ranges.mappings().contains(b));
}

/// Address by address: whose each one is, and how many bytes a mapping has.
class Model {
  public:
    static constexpr int kSize = 300;
    std::array<std::int64_t, kSize> owner{};
    std::map<std::uint64_t, std::uint64_t> left;

    Model() { owner.fill(-1); }
    void check(const MappedRanges& ranges) const {
        std::array<std::int64_t, kSize> found{};
        found.fill(-1);
        std::int64_t last = -2;
        std::uint64_t last_end = 0;
        for (const Piece& piece : ranges.pieces()) {
            const auto mapping = static_cast<std::int64_t>(piece.value.value());
            ASSERT_LT(piece.range.begin, piece.range.end);
            ASSERT_FALSE(piece.range.begin == last_end && mapping == last) << "not joined";
            for (std::uint64_t at = piece.range.begin; at < piece.range.end; ++at) {
                found.at(at) = mapping;
            }
            last = mapping;
            last_end = piece.range.end;
        }
        ASSERT_EQ(found, owner);
        std::map<std::uint64_t, std::uint64_t> bytes;
        for (const auto& [id, each] : ranges.mappings()) {
            bytes[id.value()] = each.bytes;
        }
        ASSERT_EQ(bytes, left);
    }
};

TEST(MappedRanges, RandomOperationsAgreeWithAMapOfEachAddress) {
    testing::Stress stress(200);
    while (stress.next()) {
        MappedRanges ranges;
        Model model;
        std::vector<Piece> aside; // as of a munmap that has not returned
        const auto end_pieces = [&](const std::vector<Piece>& pieces) {
            for (const Piece& piece : pieces) {
                std::uint64_t& left = model.left.at(piece.value.value());
                left -= piece.range.size();
                ASSERT_EQ(ranges.unmap(piece).bytes, left);
                if (left == 0) {
                    model.left.erase(piece.value.value());
                }
            }
        };
        for (int step = 0; step < 200; ++step) {
            const auto begin = static_cast<std::uint64_t>(stress.number_to(Model::kSize - 1));
            const std::uint64_t end = std::min<std::uint64_t>(
                begin + static_cast<std::uint64_t>(stress.number_to(40)), Model::kSize);
            const auto cut = [&] {
                auto pieces = ranges.cut({begin, end});
                for (const Piece& piece : pieces) {
                    for (std::uint64_t at = piece.range.begin; at < piece.range.end; ++at) {
                        ASSERT_EQ(model.owner.at(at),
                                  static_cast<std::int64_t>(piece.value.value()));
                    }
                }
                std::fill(model.owner.begin() + static_cast<std::ptrdiff_t>(begin),
                          model.owner.begin() + static_cast<std::ptrdiff_t>(end), -1);
                aside.insert(aside.end(), pieces.begin(), pieces.end());
            };
            switch (stress.number_to(5) - 1) {
            case 0: // munmap begins
                cut();
                break;
            case 1: // ... has succeeded
                end_pieces(std::exchange(aside, {}));
                break;
            case 2: { // ... has failed
                for (const Piece& piece : aside) {
                    for (std::uint64_t at = piece.range.begin; at < piece.range.end; ++at) {
                        if (model.owner.at(at) < 0) {
                            model.owner.at(at) = static_cast<std::int64_t>(piece.value.value());
                        }
                    }
                }
                const auto lost = ranges.put_back(std::exchange(aside, {}));
                end_pieces(lost);
                break;
            }
            default: { // mmap, over what is there
                auto earlier = std::exchange(aside, {});
                cut();
                end_pieces(std::exchange(aside, earlier));
                const MappingId id = ranges.insert(memory(begin, end));
                model.left[id.value()] = end - begin;
                std::fill(model.owner.begin() + static_cast<std::ptrdiff_t>(begin),
                          model.owner.begin() + static_cast<std::ptrdiff_t>(end),
                          static_cast<std::int64_t>(id.value()));
            }
            }
            model.check(ranges);
            if (HasFatalFailure()) {
                return;
            }
        }
    }
}

} // namespace
} // namespace memleax
