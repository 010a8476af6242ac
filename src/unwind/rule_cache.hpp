// SPDX-License-Identifier: GPL-3.0-or-later
/// Rules by pc, direct-mapped: an entry that is in the way is overwritten.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/unwind/rule.hpp"

namespace memleax {

/// Keyed by the whole FrameAddress: a return address and the exact pc before it are looked up in
/// the tables at the same place, but differ where a signal's return code begins.
class RuleCache {
  public:
    RuleCache() : entries_(kEntries) {}

    /// The rule, or null. The pointer is good until the next insert() or clear().
    [[nodiscard]] const Rule* find(FrameAddress frame) const {
        const Entry& entry = entries_[index(frame)];
        return entry.frame == frame ? &entry.rule : nullptr;
    }
    void insert(FrameAddress frame, const Rule& rule) { entries_[index(frame)] = {frame, rule}; }
    /// Call when the modules change: other code may be at the same address.
    void clear() { entries_.assign(kEntries, Entry{}); }

    static constexpr unsigned kBits = 14;
    static constexpr std::size_t kEntries = std::size_t{1} << kBits;

  private:
    /// An empty entry is a true one: there is no code at address 0.
    struct alignas(32) Entry {
        FrameAddress frame;
        Rule rule = Rule::of(Rule::Kind::not_code);
    };
    static std::size_t index(FrameAddress frame) {
        // Fibonacci hashing (Knuth, TAOCP 6.4): spreads addresses that differ in their low bits
        // only.
        const std::uint64_t bits =
            frame.pc().value() * 2 + static_cast<std::uint64_t>(frame.is_return_address());
        return (bits * 0x9e3779b97f4a7c15ULL) >> (64 - kBits);
    }
    std::vector<Entry> entries_;
};

} // namespace memleax
