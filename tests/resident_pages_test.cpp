// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/resident_pages.hpp"

#include <array>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

namespace memleax {
namespace {

/// In numbers of pages instead of addresses.
class ResidentPagesTest : public ::testing::Test {
  protected:
    ResidentPagesTest() { pages.begin(MonotonicNs(0)); }

    static AddrRange range(std::uint64_t begin, std::uint64_t end) {
        const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
        return {begin * page, end * page};
    }
    void touch(std::uint64_t begin, std::uint64_t end, std::int64_t time,
               ResidentPages::Owner owner) {
        for (std::uint64_t number = begin; number < end; ++number) {
            pages.on_fault(RemoteAddr(range(number, number).begin + 123), {}, MonotonicNs(time),
                           owner);
        }
    }
    /// Page `number`, with the huge page that it is in.
    void touch_huge(std::uint64_t number, AddrRange huge, std::int64_t time,
                    ResidentPages::Owner owner) {
        pages.on_fault(range(number, number).start(), huge, MonotonicNs(time), owner);
    }
    MappingEvent event(MappingEvent::Step step, MappingCall call, std::int64_t time) const {
        MappingEvent result;
        result.step = step;
        result.call = call;
        result.tid = tid;
        result.time = MonotonicNs(time);
        return result;
    }
    void call_unmap(AddrRange gone, std::int64_t time) {
        MappingEvent called = event(MappingEvent::Step::called, MappingCall::munmap, time);
        called.unmapped[0] = gone;
        pages.on_mapping(called);
    }
    void call_advice(AddrRange gone, std::int64_t time) {
        MappingEvent called = event(MappingEvent::Step::called, MappingCall::madvise, time);
        called.emptied = gone;
        pages.on_mapping(called);
    }
    void end_call(MappingCall call, std::int64_t time, AddrRange added = {},
                  MappingEvent::Step step = MappingEvent::Step::succeeded) {
        MappingEvent ended = event(step, call, time);
        ended.added = added;
        pages.on_mapping(ended);
    }
    void remap(AddrRange from, AddrRange to, std::int64_t time) {
        MappingEvent called = event(MappingEvent::Step::called, MappingCall::mremap, time);
        called.unmapped[0] = from;
        pages.on_mapping(called);
        end_call(MappingCall::mremap, time + 1, to);
    }

    ResidentPages pages;
    Tid tid{7};
};

TEST_F(ResidentPagesTest, NothingIsCountedBeforeItBegins) {
    ResidentPages idle;
    idle.on_fault(RemoteAddr(4096), {}, MonotonicNs(5), 1);
    EXPECT_FALSE(idle.is_counting());
    EXPECT_EQ(idle.pages_of(1), 0U);
    pages.begin(MonotonicNs(100));
    touch(1, 3, 99, 1); // which is among what was there before
    touch(5, 6, 100, 1);
    EXPECT_EQ(pages.pages_of(1), 1U);
}

TEST_F(ResidentPagesTest, WhoTouchesAPageLastHasIt) {
    touch(0, 10, 1, 1);
    touch(4, 6, 2, 2);
    touch(4, 6, 3, 2);
    EXPECT_EQ(pages.pages_of(1), 8U);
    EXPECT_EQ(pages.pages_of(2), 2U);
    EXPECT_EQ(pages.pages_of(77), 0U);
}

TEST_F(ResidentPagesTest, WhatIsGivenBackIsGoneFromTheCallOn) {
    touch(0, 10, 1, 1);
    call_unmap(range(2, 5), 10);
    EXPECT_EQ(pages.pages_of(1), 7U);
    touch(3, 4, 11, 2); // another mapping, which came before the call has returned
    end_call(MappingCall::munmap, 12);
    EXPECT_EQ(pages.pages_of(1), 7U);
    EXPECT_EQ(pages.pages_of(2), 1U);
}

TEST_F(ResidentPagesTest, FaultsThatAreToldLateAreOfTheirTime) {
    call_advice(range(0, 10), 10);
    end_call(MappingCall::madvise, 12);
    touch(0, 5, 9, 1);
    touch(5, 8, 13, 1);
    EXPECT_EQ(pages.pages_of(1), 3U);
    pages.on_told(MonotonicNs(20)); // no older one can come
    touch(0, 5, 21, 1);
    EXPECT_EQ(pages.pages_of(1), 8U);
}

TEST_F(ResidentPagesTest, ACallThatFailsChangesNothing) {
    touch(0, 10, 1, 1);
    call_unmap(range(2, 5), 10);
    touch(3, 4, 9, 2);   // told while the call is under way
    touch(4, 5, 11, 3);  // has come in since
    touch(20, 21, 9, 2); // elsewhere
    EXPECT_EQ(pages.pages_of(2), 1U);
    end_call(MappingCall::munmap, 12, {}, MappingEvent::Step::failed);
    EXPECT_EQ(pages.pages_of(1), 8U);
    EXPECT_EQ(pages.pages_of(2), 2U);
    EXPECT_EQ(pages.pages_of(3), 1U);
    touch(2, 3, 9, 2);
    EXPECT_EQ(pages.pages_of(2), 3U);
}

TEST_F(ResidentPagesTest, MremapTakesThemAlong) {
    touch(0, 10, 1, 1);
    touch(100, 101, 1, 3); // of what was there before, of which nobody has told the end
    remap(range(0, 10), range(100, 104), 10);
    EXPECT_EQ(pages.pages_of(1), 4U);
    EXPECT_EQ(pages.pages_of(3), 0U);
    touch(2, 3, 9, 2);     // told late: it has moved, too
    touch(8, 9, 9, 2);     // this one has not
    touch(0, 1, 13, 4);    // new there
    touch(102, 103, 9, 5); // gone before
    EXPECT_EQ(pages.pages_of(1), 3U);
    EXPECT_EQ(pages.pages_of(2), 1U);
    EXPECT_EQ(pages.pages_of(4), 1U);
    EXPECT_EQ(pages.pages_of(5), 0U);
    call_unmap(range(102, 103), 20);
    end_call(MappingCall::munmap, 21);
    EXPECT_EQ(pages.pages_of(2), 0U) << "at its new place";
}

TEST_F(ResidentPagesTest, MremapMayStayInItsPlace) {
    remap(range(0, 2), range(0, 8), 10);
    touch(0, 2, 9, 1);
    touch(5, 6, 9, 1); // something else that was there before
    touch(3, 4, 12, 2);
    EXPECT_EQ(pages.pages_of(1), 2U);
    EXPECT_EQ(pages.pages_of(2), 1U);
    remap(range(0, 8), range(0, 2), 20);
    EXPECT_EQ(pages.pages_of(1), 2U);
    EXPECT_EQ(pages.pages_of(2), 0U);
}

TEST_F(ResidentPagesTest, TheBreaksLastPageStays) {
    touch(0, 10, 1, 1);
    AddrRange gone = range(4, 10);
    gone.begin += 100;
    MappingEvent call = event(MappingEvent::Step::called, MappingCall::brk, 5);
    pages.on_mapping(call);
    call = event(MappingEvent::Step::succeeded, MappingCall::brk, 6);
    call.unmapped[0] = gone;
    pages.on_mapping(call);
    EXPECT_EQ(pages.pages_of(1), 5U);
    touch(7, 8, 3, 1);
    EXPECT_EQ(pages.pages_of(1), 5U);
}

TEST_F(ResidentPagesTest, CallsWithinCallsEndInTheirOrder) {
    touch(0, 10, 1, 1);
    call_unmap(range(0, 2), 5);
    call_unmap(range(2, 4), 6); // of a signal handler
    end_call(MappingCall::munmap, 7, {}, MappingEvent::Step::failed);
    EXPECT_EQ(pages.pages_of(1), 8U);
    end_call(MappingCall::munmap, 8);
    EXPECT_EQ(pages.pages_of(1), 8U);
    pages.on_gone(range(8, 12));
    EXPECT_EQ(pages.pages_of(1), 6U);
    pages.clear();
    EXPECT_EQ(pages.pages_of(1), 0U);
}

TEST_F(ResidentPagesTest, AHugePageComesAsAWhole) {
    touch(3, 4, 1, 1);
    touch_huge(5, range(0, 8), 2, 2);
    EXPECT_EQ(pages.pages_of(1), 1U); // stays whose it was
    EXPECT_EQ(pages.pages_of(2), 7U);
    touch_huge(3, range(0, 8), 3, 3); // but for the page that was touched
    EXPECT_EQ(pages.pages_of(1), 0U);
    EXPECT_EQ(pages.pages_of(2), 7U);
    EXPECT_EQ(pages.pages_of(3), 1U);
}

TEST_F(ResidentPagesTest, AHugePageThatIsToldLateIsOfItsTime) {
    call_advice(range(2, 4), 10);
    end_call(MappingCall::madvise, 11);
    remap(range(6, 8), range(26, 28), 12);
    call_unmap(range(0, 1), 20);
    touch_huge(5, range(0, 8), 9, 1);
    EXPECT_EQ(pages.pages_of(1), 5U); // 1, 4, 5, and two that have moved
    end_call(MappingCall::munmap, 21, {}, MappingEvent::Step::failed);
    EXPECT_EQ(pages.pages_of(1), 6U);
    pages.on_gone(range(26, 28));
    EXPECT_EQ(pages.pages_of(1), 4U);
}

TEST(ResidentPages, TheirMemoryHasABound) {
    ResidentPages pages(3);
    pages.begin(MonotonicNs(0));
    const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    for (std::uint64_t number = 0; number < 20; number += 2) {
        pages.on_fault(RemoteAddr(number * page), {}, MonotonicNs(1), 1);
    }
    EXPECT_EQ(pages.pages_of(1), 3U);
    EXPECT_EQ(pages.untold(), 7U);
    pages.on_fault(RemoteAddr(64 * page), {64 * page, 72 * page}, MonotonicNs(1), 1);
    EXPECT_EQ(pages.untold(), 15U);
}

/// The truth, page by page, in the order of time.
struct Model {
    std::array<int, 96> owner{}; ///< 0: not there

    void give_back(std::size_t begin, std::size_t end) {
        std::fill(owner.begin() + begin, owner.begin() + end, 0);
    }
    void move(std::size_t begin, std::size_t end, std::size_t to, std::size_t to_end) {
        const std::array<int, 96> before = owner;
        give_back(begin, end);
        give_back(to, to_end);
        for (std::size_t i = 0; i < std::min(end - begin, to_end - to); ++i) {
            owner.at(to + i) = before.at(begin + i);
        }
    }
    void touch(std::size_t page, int by, bool is_huge) {
        const std::size_t begin = page / kHuge * kHuge;
        for (std::size_t i = begin; is_huge && i < begin + kHuge; ++i) {
            owner.at(i) = owner.at(i) != 0 ? owner.at(i) : by;
        }
        owner.at(page) = by;
    }
    static constexpr std::size_t kHuge = 8; ///< pages
    [[nodiscard]] std::map<int, std::uint64_t> count() const {
        std::map<int, std::uint64_t> result;
        for (const int each : owner) {
            result[each] += each != 0 ? 1 : 0;
        }
        return result;
    }
};

TEST_F(ResidentPagesTest, AsAModelHasThem) {
    for (unsigned seed = 1; seed <= 20; ++seed) {
        std::mt19937 random(seed);
        const auto below = [&random](std::size_t n) { return random() % n; };
        const auto any_range = [&below] {
            const std::size_t begin = below(90);
            return std::pair(begin, begin + 1 + below(std::min<std::size_t>(12, 95 - begin)));
        };
        pages.begin(MonotonicNs(0));
        Model model;
        struct Fault {
            std::size_t page;
            std::int64_t time;
            ResidentPages::Owner owner;
            bool is_huge;
        };
        std::vector<Fault> untold;
        const auto tell = [&](std::size_t most) {
            std::size_t told = 0;
            std::int64_t until = 0;
            for (; told < std::min(most, untold.size()); ++told) {
                const Fault& each = untold[told];
                const std::size_t huge = each.page / Model::kHuge * Model::kHuge;
                touch_huge(each.page, each.is_huge ? range(huge, huge + Model::kHuge) : AddrRange{},
                           each.time, each.owner);
                until = each.time;
            }
            untold.erase(untold.begin(), untold.begin() + static_cast<std::ptrdiff_t>(told));
            pages.on_told(MonotonicNs(until));
        };
        for (std::int64_t time = 10; time < 20000; time += 10) {
            const auto [begin, end] = any_range();
            switch (below(8)) {
            case 0: // fails, or not
            case 1: {
                call_unmap(range(begin, end), time);
                tell(below(4));
                const bool fails = below(4) == 0;
                end_call(MappingCall::munmap, time + 5, {},
                         fails ? MappingEvent::Step::failed : MappingEvent::Step::succeeded);
                if (!fails) {
                    model.give_back(begin, end);
                }
                break;
            }
            case 2: {
                const std::size_t to = below(2) == 0 ? begin : below(80);
                const std::size_t to_end = to + 1 + below(5);
                if (to == begin || to_end <= begin || to >= end) {
                    remap(range(begin, end), range(to, to_end), time);
                    model.move(begin, end, to, to_end);
                }
                break;
            }
            case 3:
                tell(below(100));
                break;
            default: {
                const auto owner = static_cast<ResidentPages::Owner>(1 + below(4));
                const bool is_huge = below(4) == 0;
                untold.push_back({begin, time, owner, is_huge});
                model.touch(begin, static_cast<int>(owner), is_huge);
                break;
            }
            }
        }
        tell(untold.size());
        for (const auto& [owner, count] : model.count()) {
            if (owner != 0) {
                ASSERT_EQ(pages.pages_of(static_cast<ResidentPages::Owner>(owner)), count)
                    << "seed " << seed;
            }
        }
    }
}

} // namespace
} // namespace memleax
