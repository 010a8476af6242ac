// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/intervals.hpp"

#include <algorithm>

namespace memleax {

namespace {

/// Intervals of one length (level) beside the one being recorded.
constexpr std::size_t kOfALevel = 2;

} // namespace

void Intervals::Entry::absorb(const Entry& other) {
    alloc.blocks += other.alloc.blocks;
    alloc.bytes += other.alloc.bytes;
    live_blocks = live_blocks + other.live_blocks;
    live_bytes += other.live_bytes;
    life_bits = std::max<std::uint64_t>(life_bits, other.life_bits);
}

Intervals::Time Intervals::boundary(MonotonicNs now) const {
    return latest_birth_ == kNone ? now.value() : std::max(now.value(), latest_birth_ + 1);
}

void Intervals::start(MonotonicNs now) {
    intervals_.clear();
    periods_.clear();
    const Time begin = boundary(now);
    periods_.push_back({begin, kNever});
    open(begin);
}

void Intervals::stop(MonotonicNs now) {
    if (state_ == State::recording) {
        // Later than its begin: an interval is never empty.
        const Time end = std::max(boundary(now), open_begin_ + 1);
        close(end);
        periods_.back().end = end;
        open_begin_ = kNever;
    }
    state_ = State::stopped;
    update_limits();
}

void Intervals::restart(MonotonicNs now) {
    if (state_ == State::idle) {
        start(now);
        return;
    }
    Time begin = boundary(now);
    if (state_ == State::recording) {
        if (begin <= open_begin_) {
            return; // nothing can have happened since the last one
        }
        close(begin);
    } else {
        begin = periods_.empty() ? begin : std::max(begin, periods_.back().end);
        periods_.push_back({begin, kNever});
    }
    open(begin);
}

bool Intervals::drop_oldest() {
    if (intervals_.empty() || intervals_.front().end == kNever) {
        return false;
    }
    intervals_.erase(intervals_.begin());
    update_limits();
    return true;
}

void Intervals::tick(MonotonicNs now) {
    if (state_ == State::idle) {
        start(now);
    } else if (state_ == State::recording && now.value() - open_begin_ >= base_ns_) {
        restart(now);
    }
}

void Intervals::open(Time begin) {
    intervals_.push_back({begin, kNever, 0});
    open_begin_ = begin;
    state_ = State::recording;
    update_limits();
}

void Intervals::close(Time end) {
    intervals_.back().end = end;
    merge();
}

void Intervals::merge() {
    // All are closed here. Levels never grow towards the younger end.
    std::size_t end = intervals_.size();
    for (;;) {
        const unsigned level = intervals_[end - 1].level;
        std::size_t begin = end - 1;
        while (begin > 0 && intervals_[begin - 1].level == level) {
            --begin;
        }
        if (end - begin <= kOfALevel) {
            return;
        }
        intervals_[begin].end = intervals_[begin + 1].end;
        ++intervals_[begin].level;
        intervals_.erase(intervals_.begin() + static_cast<std::ptrdiff_t>(begin) + 1);
        end = begin + 1;
    }
}

void Intervals::update_limits() {
    first_begin_ = intervals_.empty() ? kNever : intervals_.front().begin;
    periods_.erase(periods_.begin(),
                   std::find_if(periods_.begin(), periods_.end(),
                                [&](const Period& p) { return p.end > first_begin_; }));
    sure_begin_ = periods_.empty() ? kNever : std::max(periods_.back().begin, first_begin_);
    sure_end_ = periods_.empty() ? kNever : periods_.back().end;
}

bool Intervals::covered_before(Time birth) const {
    const auto after = std::upper_bound(periods_.begin(), periods_.end(), birth,
                                        [](Time t, const Period& p) { return t < p.begin; });
    return after != periods_.begin() && birth < std::prev(after)->end;
}

std::size_t Intervals::interval_at(Time time) const {
    const auto after = std::upper_bound(intervals_.begin(), intervals_.end(), time,
                                        [](Time t, const Interval& i) { return t < i.begin; });
    MEMLEAX_ASSERT(after != intervals_.begin());
    return static_cast<std::size_t>(after - intervals_.begin()) - 1;
}

void Intervals::count_allocation_elsewhere(StackId stack, Time birth, std::uint64_t size) {
    if (state_ == State::idle) { // at this birth, not after it
        periods_.push_back({birth, kNever});
        open(birth);
    }
    if (!covers(birth)) {
        return;
    }
    if (stack.value() >= counts_.size()) {
        counts_.resize(std::size_t{stack.value()} + 1);
    }
    StackCounts& counts = counts_[stack.value()];
    const Time begin = intervals_[interval_at(birth)].begin;
    if (begin > counts.youngest.begin) {
        if (counts.youngest.begin >= first_begin_) {
            make_room(counts.older);
            counts.older.push_back(counts.youngest);
        }
        counts.youngest = {};
        counts.youngest.begin = begin;
    } else if (birth < counts.youngest.begin) { // told late
        const auto after = std::upper_bound(counts.older.begin(), counts.older.end(), birth,
                                            [](Time t, const Entry& e) { return t < e.begin; });
        // An entry may have kept the begin that its interval had before a merge.
        if (after == counts.older.begin() || std::prev(after)->begin < begin) {
            Entry fresh;
            fresh.begin = begin;
            counts.older.insert(after, fresh);
        }
    }
    entry_of(counts, birth)->add(size);
}

void Intervals::make_room(std::vector<Entry>& older) const {
    if (older.size() < older.capacity()) {
        return;
    }
    std::size_t kept = 0;
    for (const Entry& entry : older) {
        if (entry.begin < first_begin_) {
            continue;
        }
        Entry moved = entry;
        moved.begin = intervals_[interval_at(entry.begin)].begin;
        if (kept > 0 && older[kept - 1].begin == moved.begin) {
            older[kept - 1].absorb(moved);
        } else {
            older[kept++] = moved;
        }
    }
    older.resize(kept);
    // Not again for every entry: a quarter has to be free.
    if (kept > older.capacity() / 4 * 3) {
        older.reserve(std::max<std::size_t>(4, older.capacity() * 2));
    }
}

std::vector<IntervalBounds> Intervals::bounds(MonotonicNs now) const {
    std::vector<IntervalBounds> all;
    all.reserve(intervals_.size());
    for (const Interval& interval : intervals_) {
        const Time end =
            interval.end != kNever ? interval.end : std::max(now.value(), interval.begin);
        all.push_back({MonotonicNs(interval.begin), MonotonicNs(end)});
    }
    return all;
}

std::vector<IntervalCount> Intervals::of(StackId stack, MonotonicNs now) const {
    std::vector<IntervalCount> all;
    all.reserve(intervals_.size());
    for (const IntervalBounds& bound : bounds(now)) {
        all.push_back({bound.begin, bound.end, {}, {}, 0});
    }
    if (stack.value() >= counts_.size()) {
        return all;
    }
    const auto count = [&](const Entry& entry) {
        if (entry.begin < first_begin_) {
            return;
        }
        IntervalCount& sum = all[interval_at(entry.begin)];
        sum.alloc.blocks += entry.alloc.blocks;
        sum.alloc.bytes += entry.alloc.bytes;
        sum.live.blocks += entry.live_blocks;
        sum.live.bytes += entry.live_bytes;
        if (entry.life_bits != 0) {
            const Time longest = entry.life_bits < 63 ? Time{1} << entry.life_bits : kNever;
            sum.longest_life = std::max(sum.longest_life, longest);
        }
    };
    const StackCounts& counts = counts_[stack.value()];
    std::for_each(counts.older.begin(), counts.older.end(), count);
    count(counts.youngest);
    return all;
}

} // namespace memleax
