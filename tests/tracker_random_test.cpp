// SPDX-License-Identifier: GPL-3.0-or-later
// The tracker against a model that is too simple to be wrong, on random programs of several
// threads.
#include "memleax/track/tracker.hpp"

#include <array>
#include <map>
#include <random>
#include <set>
#include <vector>

#include <gtest/gtest.h>

namespace memleax {
namespace {

constexpr std::int64_t kExpire = 5000;
constexpr int kThreads = 5;
constexpr std::uint32_t kStacks = 7;
constexpr std::uint64_t kAddresses = 400;      ///< few, so that they are used again and again
constexpr std::uint64_t kUnknown = 0x10000000; ///< addresses from here on are of before the attach

struct ModelBlock {
    std::uint64_t size;
    std::int64_t time;
    std::uint32_t stack;
    bool expired;
};

struct ModelAccount {
    BlockCount alloc;
    BlockCount free;
    BlockCount expired;
    BlockCount free_expired;
    std::int64_t shortest = INT64_MAX;
    std::int64_t longest = 0;
    std::int64_t sum = 0;
};

struct Model {
    std::map<std::uint64_t, ModelBlock> live;
    std::set<std::uint64_t> freed;
    struct Realloc {
        std::uint64_t old;
        std::optional<ModelBlock> block; ///< absent: it was unknown
    };
    std::map<int, Realloc> reallocs;
    std::array<ModelAccount, kStacks> accounts;
    EventCounts events;

    void begin(std::uint64_t address, const ModelBlock& block) {
        ASSERT_TRUE(live.emplace(address, block).second);
        freed.erase(address);
        accounts[block.stack].alloc.add(block.size);
    }
    void end(const ModelBlock& block, std::int64_t now) {
        ModelAccount& account = accounts[block.stack];
        const std::int64_t age = now - block.time;
        account.free.add(block.size);
        account.shortest = std::min(account.shortest, age);
        account.longest = std::max(account.longest, age);
        account.sum += age;
        if (block.expired || age >= kExpire) {
            if (!block.expired) {
                expire(now, block.time); // older ones before it
                account.expired.add(block.size);
            }
            account.free_expired.add(block.size);
        }
    }
    void expire(std::int64_t now, std::int64_t born_before = INT64_MAX) {
        for (auto& [address, block] : live) {
            if (!block.expired && now - block.time >= kExpire && block.time < born_before) {
                block.expired = true;
                accounts[block.stack].expired.add(block.size);
            }
        }
    }
};

/// Plays a random program, and tells model and tracker of each step.
class Program {
  public:
    explicit Program(unsigned seed) : random_(seed) {
        for (std::uint64_t i = 0; i < kStacks; ++i) {
            tracker.intern(std::vector{FrameAddress::exact(CodeAddr(i + 1))}, StackEnd::outermost);
        }
    }
    void step();
    /// Both let everything expire that is old enough.
    void expire() {
        model.expire(now_);
        ASSERT_FALSE(tracker.expire(MonotonicNs(now_), 1'000'000));
    }

    Tracker tracker{
        {.expire_ns = kExpire, .memory_block_max = 0, .call_stack_max = 0, .interval_ns = 500}};
    Model model;

  private:
    std::uint64_t below(std::uint64_t n) { return random_() % n; }
    /// An address that the allocator could give out now. That of a block within a realloc is one if
    /// the call is going to move the block.
    std::uint64_t unused_address() {
        for (;;) {
            const std::uint64_t address = 16 * (1 + below(kAddresses));
            if (!model.live.contains(address) && !kept_.contains(address)) {
                return address;
            }
        }
    }
    std::uint64_t live_address() {
        auto it = model.live.lower_bound(16 * below(kAddresses));
        return it == model.live.end() ? model.live.begin()->first : it->first;
    }
    void send(EventKind kind, int tid, std::uint64_t address, std::uint64_t old,
              const ModelBlock& block) {
        tracker.on_event({.kind = kind,
                          .tid = Tid(tid),
                          .address = RemoteAddr(address),
                          .size = block.size,
                          .old_address = RemoteAddr(old),
                          .stack = StackId(block.stack),
                          .time = MonotonicNs(now_)});
    }
    ModelBlock new_block() {
        return {1 + below(1000), now_, static_cast<std::uint32_t>(below(kStacks)), false};
    }
    void finish_realloc(int tid);

    std::mt19937 random_;
    std::int64_t now_ = 1;
    std::set<std::uint64_t> kept_; ///< old addresses of reallocs that will fail or stay in place
};

void Program::step() {
    now_ += static_cast<std::int64_t>(1 + below(20));
    const int tid = static_cast<int>(1 + below(kThreads));
    if (model.reallocs.contains(tid)) {
        finish_realloc(tid);
        return;
    }
    const ModelBlock block = new_block();
    const std::uint64_t choice = below(100);
    if (choice < 45 && model.live.size() < kAddresses / 2) {
        const std::uint64_t address = unused_address();
        ++model.events.alloc;
        send(EventKind::alloc, tid, address, 0, block);
        model.begin(address, block);
    } else if (choice < 75 && !model.live.empty()) {
        const std::uint64_t address = live_address();
        ++model.events.free;
        send(EventKind::free, tid, address, 0, block);
        model.end(model.live.at(address), now_);
        model.live.erase(address);
        model.freed.insert(address);
    } else if (choice < 90 && !model.live.empty()) {
        const std::uint64_t old = live_address();
        send(EventKind::realloc_begin, tid, 0, old, block);
        model.reallocs[tid] = {old, model.live.at(old)};
        model.live.erase(old);
        if (below(2) == 0) {
            kept_.insert(old);
        }
    } else if (choice < 92) {
        const std::uint64_t old = kUnknown + 16 * below(100);
        send(EventKind::realloc_begin, tid, 0, old, block);
        model.reallocs[tid] = {old, std::nullopt};
    } else if (choice < 94) {
        ++model.events.unknown_free;
        send(EventKind::free, tid, kUnknown + 16 * below(100), 0, block);
    } else if (choice < 96 && !model.freed.empty()) {
        const std::uint64_t address = *model.freed.begin();
        if (!model.live.contains(address) && !kept_.contains(address)) {
            ASSERT_TRUE(tracker.wants_free_stack(RemoteAddr(address)));
            ++model.events.double_free;
            send(EventKind::free, tid, address, 0, block);
        }
    } else if (choice < 98) {
        ++model.events.failed_alloc;
        send(EventKind::failed_alloc, tid, 0, 0, block);
    } else {
        expire();
    }
}

void Program::finish_realloc(int tid) {
    const Model::Realloc realloc = model.reallocs.at(tid);
    model.reallocs.erase(tid);
    const bool stays = kept_.erase(realloc.old) != 0; // nobody else has the address
    const ModelBlock block = new_block();
    if (stays && below(2) == 0) {
        send(EventKind::realloc_failed, tid, 0, realloc.old, block);
        model.live.emplace(realloc.old, *realloc.block);
        return;
    }
    const bool frees = below(8) == 0;
    const std::uint64_t address = stays ? realloc.old : unused_address();
    if (frees) {
        send(EventKind::realloc_free, tid, 0, realloc.old, block);
    } else {
        send(EventKind::realloc_end, tid, address, realloc.old, block);
        ++model.events.realloc;
    }
    if (realloc.block) {
        model.end(*realloc.block, now_);
        model.events.free += frees ? 1 : 0;
        if (!model.live.contains(realloc.old)) {
            model.freed.insert(realloc.old);
        }
    } else {
        ++model.events.unknown_free;
    }
    if (!frees) {
        model.begin(address, block);
    }
}

void compare(const Program& program) {
    const Model& model = program.model;
    const Tracker& tracker = program.tracker;
    ASSERT_EQ(tracker.events().alloc, model.events.alloc);
    ASSERT_EQ(tracker.events().free, model.events.free);
    ASSERT_EQ(tracker.events().realloc, model.events.realloc);
    ASSERT_EQ(tracker.events().failed_alloc, model.events.failed_alloc);
    ASSERT_EQ(tracker.events().unknown_free, model.events.unknown_free);
    ASSERT_EQ(tracker.events().double_free, model.events.double_free);
    ASSERT_EQ(tracker.missed_frees(), 0U);
    for (std::uint32_t i = 0; i < kStacks; ++i) {
        const CallStackAccount& account = tracker.account(StackId(i));
        const ModelAccount& expected = model.accounts[i];
        ASSERT_EQ(account.alloc, expected.alloc);
        ASSERT_EQ(account.free, expected.free);
        ASSERT_EQ(account.expired, expected.expired);
        ASSERT_EQ(account.free_expired, expected.free_expired);
        BlockCount alloc;
        BlockCount live;
        for (const IntervalCount& interval : tracker.intervals().of(StackId(i), MonotonicNs(0))) {
            alloc.blocks += interval.alloc.blocks;
            alloc.bytes += interval.alloc.bytes;
            live.blocks += interval.live.blocks;
            live.bytes += interval.live.bytes;
        }
        ASSERT_EQ(alloc, account.alloc);
        ASSERT_EQ(live, account.live());
        if (expected.free.blocks != 0) {
            ASSERT_EQ(account.lifetime_min, expected.shortest);
            ASSERT_EQ(account.lifetime_max, expected.longest);
            ASSERT_EQ(account.lifetime_sum, static_cast<double>(expected.sum));
        }
    }
    std::size_t held = 0;
    for (const auto& [tid, realloc] : model.reallocs) {
        held += realloc.block ? 1 : 0;
    }
    ASSERT_EQ(tracker.blocks().size(), model.live.size() + held);
    for (const auto& [address, block] : model.live) {
        const auto id = tracker.blocks().find(RemoteAddr(address));
        ASSERT_TRUE(id);
        const Block got = tracker.blocks()[*id];
        ASSERT_EQ(got.size, block.size);
        ASSERT_EQ(got.time.value(), block.time);
        ASSERT_EQ(got.stack.value(), block.stack);
        ASSERT_EQ(got.expired, block.expired);
    }
}

TEST(TrackerRandom, AgreesWithTheModel) {
    for (unsigned seed = 1; seed <= 4; ++seed) {
        SCOPED_TRACE(testing::Message() << "seed " << seed);
        Program program(seed);
        for (int i = 1; i <= 100'000; ++i) {
            program.step();
            if (i % 1000 == 0) {
                program.expire();
                compare(program);
            }
            if (HasFatalFailure()) {
                FAIL() << "at step " << i;
            }
        }
        // The program did all that it is meant to do.
        const EventCounts& events = program.tracker.events();
        for (const std::uint64_t count :
             {events.alloc, events.free, events.realloc, events.unknown_free, events.double_free}) {
            EXPECT_GT(count, 100U);
        }
    }
}

} // namespace
} // namespace memleax
