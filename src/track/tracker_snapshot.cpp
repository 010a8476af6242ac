// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/tracker_snapshot.hpp"

#include <algorithm>

namespace memleax {

namespace {
constexpr std::uint32_t kNowhere = 0xffffffff;
constexpr std::uint32_t kStacksAtOnce = 128; ///< each has some dozen intervals to be copied
constexpr std::uint32_t kBlocksAtOnce = 8192;
constexpr std::size_t kMappingsAtOnce = 1024;
} // namespace

bool SnapshotCopier::copy_some(Tracker& tracker) {
    if (next_stack_ < tracker.stacks().size()) {
        copy_stacks(tracker);
        return true;
    }
    if (next_block_ < tracker.blocks().used()) {
        find_oldest(tracker);
        return true;
    }
    if (next_mapping_) {
        find_oldest_mapped(tracker);
        return true;
    }
    snapshot_.events = tracker.events();
    snapshot_.calls = tracker.seen_calls();
    snapshot_.errors = tracker.errors(); // 1,000 at most
    snapshot_.mapped = tracker.mapped_totals();
    return false;
}

void SnapshotCopier::copy_stacks(Tracker& tracker) {
    const auto end = static_cast<std::uint32_t>(
        std::min<std::size_t>(next_stack_ + kStacksAtOnce, tracker.stacks().size()));
    place_.resize(end, kNowhere);
    for (; next_stack_ < end; ++next_stack_) {
        const StackId id(next_stack_);
        const CallStackAccount& account = tracker.account(id);
        if (account.unfollowed.blocks != 0) {
            snapshot_.unfollowed.push_back(
                {id, account.unfollowed, account.why_unfollowed, tracker.stacks().end(id)});
        }
        if (account.live().blocks == 0 && account.expired.blocks == 0 &&
            account.untracked.blocks == 0) {
            continue;
        }
        tracker.number(id);
        place_[next_stack_] = static_cast<std::uint32_t>(snapshot_.stacks.size());
        snapshot_.stacks.push_back({id, tracker.account(id), tracker.stacks().end(id), std::nullopt,
                                    tracker.intervals().of(id, snapshot_.time)});
    }
}

void SnapshotCopier::find_oldest(const Tracker& tracker) {
    const auto end = std::min(next_block_ + kBlocksAtOnce, tracker.blocks().used());
    tracker.blocks().for_each(next_block_, end,
                              [this](const Block& block) { note_oldest(block.stack, block.time); });
    next_block_ = end;
}

void SnapshotCopier::find_oldest_mapped(const Tracker& tracker) {
    const auto& mappings = tracker.mapped().mappings();
    auto it = mappings.lower_bound(*next_mapping_);
    for (std::size_t budget = kMappingsAtOnce; budget > 0 && it != mappings.end(); --budget, ++it) {
        note_oldest(it->second.stack, it->second.time);
    }
    next_mapping_ = it != mappings.end() ? std::optional(it->first) : std::nullopt;
}

void SnapshotCopier::note_oldest(StackId stack, MonotonicNs time) {
    if (stack.value() >= place_.size() || place_[stack.value()] == kNowhere) {
        return; // came after the stacks were copied
    }
    auto& oldest = snapshot_.stacks[place_[stack.value()]].oldest;
    oldest = oldest ? std::min(*oldest, time) : time;
}

} // namespace memleax
