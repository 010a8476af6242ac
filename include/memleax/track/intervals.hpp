// SPDX-License-Identifier: GPL-3.0-or-later
/// The division of a session into intervals, by the time at which blocks were allocated.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/track/block_count.hpp"

namespace memleax {

/// What one call stack did in one interval.
struct IntervalCount {
    MonotonicNs begin;
    MonotonicNs end;  ///< of the youngest interval: the time of asking
    BlockCount alloc; ///< allocated in the interval
    BlockCount live;  ///< of those, not freed until now
    /// Longest life in ns of those that were freed, rounded up to a power of two; 0: none was
    std::int64_t longest_life = 0;
};

struct IntervalBounds {
    MonotonicNs begin;
    MonotonicNs end; ///< not included; of the one that is being recorded: the time of asking
};

/// Counts by call stack and interval of birth. The youngest interval is the one being recorded;
/// older ones are merged as they age, as in an exponential histogram: at most two of about the same
/// length, the next older ones twice as long. Ten days in seconds are some 40 intervals.
///
/// A merge only takes a boundary away, so the counts of a stack are brought in line with the
/// boundaries when that stack grows, not before: an event costs a comparison and two additions, and
/// nothing is ever done for all stacks. Every boundary is later than the births that were told
/// before it, so that a block is found in the interval that it was counted in, by its time of birth
/// alone. No locks inside.
class Intervals {
  public:
    explicit Intervals(std::int64_t base_ns = kNsPerSecond) : base_ns_(base_ns) {}

    /// Erases all intervals and begins recording the first. Happens by itself with the first block
    /// or tick() if no command came before.
    void start(MonotonicNs now);
    /// Ends the youngest interval; blocks that are born from now on are in none.
    void stop(MonotonicNs now);
    /// Ends the youngest interval, if it is recorded, and begins the next.
    void restart(MonotonicNs now);
    /// Forgets the oldest interval. False if there is none but the one being recorded.
    bool drop_oldest();
    [[nodiscard]] bool recording() const { return state_ == State::recording; }
    /// Begins the next interval if the youngest has reached its length. To be called now and then.
    void tick(MonotonicNs now);

    /// A block was allocated, ...
    void count_allocation(StackId stack, MonotonicNs birth, std::uint64_t size) {
        if (birth.value() > latest_birth_) {
            latest_birth_ = birth.value();
        }
        if (stack.value() < counts_.size()) {
            Entry& youngest = counts_[stack.value()].youngest;
            if (youngest.begin == open_begin_ && birth.value() >= open_begin_) {
                youngest.add(size);
                return;
            }
        }
        count_allocation_elsewhere(stack, birth.value(), size);
    }
    /// ... and freed at this age.
    void count_free(StackId stack, MonotonicNs birth, std::int64_t age, std::uint64_t size) {
        if (covers(birth.value())) {
            entry_of(counts_[stack.value()], birth.value())->take(size, age);
        }
    }
    /// ... or has lost some of its bytes.
    void shrink(StackId stack, MonotonicNs birth, std::uint64_t size) {
        if (covers(birth.value())) {
            entry_of(counts_[stack.value()], birth.value())->live_bytes -= size;
        }
    }

    /// What a stack did, one for each of bounds().
    [[nodiscard]] std::vector<IntervalCount> of(StackId stack, MonotonicNs now) const;
    /// Of all intervals, oldest first. There is a gap between two where stop() was in force, unless
    /// they have been merged over it.
    [[nodiscard]] std::vector<IntervalBounds> bounds(MonotonicNs now) const;

  private:
    using Time = std::int64_t;
    static constexpr Time kNever = std::numeric_limits<Time>::max();
    static constexpr Time kNone = std::numeric_limits<Time>::min();

    enum class State : std::uint8_t { idle, recording, stopped };
    struct Interval {
        Time begin;
        Time end;       ///< kNever: being recorded
        unsigned level; ///< it was merged from 2^level
    };
    /// A time during which blocks were counted, from start() or restart() to stop().
    struct Period {
        Time begin;
        Time end;
    };
    /// What a stack did from `begin` to the begin of its next entry.
    struct Entry {
        Time begin = kNone;
        BlockCount alloc;
        std::uint64_t live_blocks : 56 = 0;
        std::uint64_t life_bits : 8 = 0; ///< bit width of the longest life; 0: none was freed
        std::uint64_t live_bytes = 0;

        void add(std::uint64_t size) {
            alloc.add(size);
            ++live_blocks;
            live_bytes += size;
        }
        void take(std::uint64_t size, std::int64_t age);
        void absorb(const Entry& other);
    };
    /// One cache line: most events are about the youngest entry.
    struct alignas(64) StackCounts {
        Entry youngest;
        std::vector<Entry> older; ///< oldest first
    };
    static_assert(sizeof(StackCounts) == 64);

    /// Are blocks of this birth counted? The answer for a birth that was told stays the same until
    /// its interval is forgotten.
    [[nodiscard]] bool covers(Time birth) const {
        if (birth >= sure_begin_) {
            return birth < sure_end_;
        }
        return birth >= first_begin_ && covered_before(birth);
    }
    [[nodiscard]] bool covered_before(Time birth) const;
    /// Where a block was counted: the entry with the latest begin that is not after the birth.
    static Entry* entry_of(StackCounts& counts, Time birth);
    void count_allocation_elsewhere(StackId stack, Time birth, std::uint64_t size);
    /// The index of the interval with the latest begin that is not after `time`, which is covered.
    [[nodiscard]] std::size_t interval_at(Time time) const;
    void make_room(std::vector<Entry>& older) const;
    [[nodiscard]] Time boundary(MonotonicNs now) const;
    void open(Time begin);
    void close(Time end);
    void merge();
    void update_limits();

    std::int64_t base_ns_;
    State state_ = State::idle;
    Time latest_birth_ = kNone;
    Time open_begin_ = kNever;  ///< of the interval being recorded
    Time first_begin_ = kNever; ///< of the oldest one
    Time sure_begin_ = kNever;  ///< from here to sure_end_ all blocks were counted
    Time sure_end_ = kNever;
    std::vector<Interval> intervals_; ///< oldest first
    std::vector<Period> periods_;     ///< likewise
    std::vector<StackCounts> counts_; ///< by StackId
};

inline void Intervals::Entry::take(std::uint64_t size, std::int64_t age) {
    live_blocks = live_blocks - 1;
    live_bytes -= size;
    const auto bits =
        static_cast<std::uint64_t>(64 - __builtin_clzll(static_cast<unsigned long long>(age) | 1U));
    if (bits > life_bits) {
        life_bits = bits;
    }
}

inline Intervals::Entry* Intervals::entry_of(StackCounts& counts, Time birth) {
    if (birth >= counts.youngest.begin) {
        return &counts.youngest;
    }
    std::size_t low = 0;
    std::size_t high = counts.older.size();
    while (low < high) {
        const std::size_t middle = (low + high) / 2;
        (counts.older[middle].begin <= birth ? low : high) =
            counts.older[middle].begin <= birth ? middle + 1 : middle;
    }
    MEMLEAX_ASSERT(low > 0);
    return &counts.older[low - 1];
}

} // namespace memleax
