// SPDX-License-Identifier: GPL-3.0-or-later
/// Does a call stack leak? Judged by what is left, at different ages, of what it has allocated.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

#include "memleax/track/block_count.hpp"
#include "memleax/track/intervals.hpp"

namespace memleax {

/// In ascending order of suspicion. `lost` is proof: nothing points to some of its blocks (see
/// reachability.hpp).
enum class Verdict : std::uint8_t { too_early, settled, plateau, growing, leaking, lost };
inline constexpr std::size_t kVerdicts = 6;

/// What verdicts rest on, each with its figures. report/verdict_text.hpp has the words. A `share`
/// is that of the blocks which are left, 0 to 1.
namespace reason {

// Too early:
struct NothingAllocated {
    bool operator==(const NothingAllocated&) const = default;
};
struct SeenShortly {
    double seen_s = 0;
    bool operator==(const SeenShortly&) const = default;
};
struct FewBlocks {
    std::uint64_t left = 0;
    bool operator==(const FewBlocks&) const = default;
};
struct NothingOlder {
    double share = 0;
    bool operator==(const NothingOlder&) const = default;
};

// Settled:
struct AllFreed {
    std::uint64_t allocated = 0;
    double longest_life_s = 0;
    bool operator==(const AllFreed&) const = default;
};
struct OldFreed {
    std::uint64_t allocated = 0; ///< of those that are older
    double older_than_s = 0;
    bool operator==(const OldFreed&) const = default;
};
struct FreedWithAge {
    double older_share = 0;
    double older_than_s = 0;
    double newer_share = 0;
    bool operator==(const FreedWithAge&) const = default;
};

// Plateau:
struct FewLately {
    std::uint64_t left = 0;
    std::uint64_t left_lately = 0;
    double lately_s = 0;
    bool operator==(const FewLately&) const = default;
};
struct NoneLately {
    std::uint64_t left = 0;
    double lately_s = 0;
    bool operator==(const NoneLately&) const = default;
};

// Growing, leaking; Judgement has the rate:
struct Stay {
    double share = 0;
    double during_s = 0;
    bool may_fill_up = false; ///< a cache that fills looks just like that
    bool operator==(const Stay&) const = default;
};
struct StayForGood {
    double share = 0;
    std::uint64_t intervals = 0;
    std::uint64_t intervals_with_live = 0;
    double since_s = 0; ///< ago
    bool operator==(const StayForGood&) const = default;
};

// Growing, of a call stack that has no more blocks than before, but ever larger ones:
struct EverLarger {
    BlockCount live;
    double during_s = 0;
    bool operator==(const EverLarger&) const = default;
};

// Lost:
struct Lost {
    BlockCount definite;
    BlockCount indirect; ///< held by lost blocks only
    bool operator==(const Lost&) const = default;
};

} // namespace reason

/// std::monostate: not judged.
using Reason =
    std::variant<std::monostate, reason::NothingAllocated, reason::SeenShortly, reason::FewBlocks,
                 reason::NothingOlder, reason::AllFreed, reason::OldFreed, reason::FreedWithAge,
                 reason::FewLately, reason::NoneLately, reason::Stay, reason::StayForGood,
                 reason::EverLarger, reason::Lost>;

/// Who holds most of what has come to stay.
struct HeldBy {
    std::uint64_t blocks = 0; ///< so many ...
    std::uint64_t of = 0;     ///< ... of these
    std::string holder;       ///< "g_sessions, server.cpp"
    bool operator==(const HeldBy&) const = default;
};

struct Judgement {
    Verdict verdict = Verdict::too_early;
    double score = 0; ///< orders call stacks of one verdict; more is worse
    Reason reason;
    double blocks_per_s = 0; ///< rate at which blocks have come to stay, over the last intervals
    double bytes_per_s = 0;
    std::optional<HeldBy> held_by = {}; ///< of what grows, if somebody has looked at the heap
    bool operator==(const Judgement&) const = default;
    /// Its blocks grow in size, not in number.
    [[nodiscard]] bool is_ever_larger() const {
        return std::holds_alternative<reason::EverLarger>(reason);
    }
};

/// What a look at the heap has found of one call stack's blocks.
struct StackFinding {
    BlockCount definite; ///< lost
    BlockCount indirect; ///< lost with others
    std::optional<HeldBy> held_by = {};
};

/// The judgement with the proof, if there is one, above all signs.
[[nodiscard]] Judgement with_finding(Judgement judgement, const StackFinding& finding);

/// `intervals` of one call stack, oldest first; `oldest_live`: the birth of its oldest live block,
/// if that is known, which an interval tells less exactly the longer it is.
Judgement judge(std::span<const IntervalCount> intervals, MonotonicNs now,
                std::optional<MonotonicNs> oldest_live = std::nullopt);

} // namespace memleax
