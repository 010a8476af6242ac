// SPDX-License-Identifier: GPL-3.0-or-later
/// What a report's call stacks come to: the text's first sentence and the page's headline both say
/// this, each in its own words.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>

#include "memleax/report/report.hpp"

namespace memleax {

/// Call stacks with live blocks that have a verdict in common, or its absence.
struct StackGroup {
    std::uint64_t stacks = 0;
    BlockCount live;
    const CallStackReport* worst = nullptr; ///< the one that costs most, in the report

    void add(const CallStackReport& stack);
    /// "3 call stacks hold 1.2 KiB in 5 blocks".
    [[nodiscard]] std::string holding() const;
};

/// Points into the report that it was drawn from.
struct Conclusion {
    /// The first of these that is true. Only steady is an all-clear, and nothing_live.
    enum class Kind {
        lost,             ///< call stacks have blocks that nothing points to
        leaking,          ///< call stacks leak
        growing,          ///< call stacks grow
        unjudged,         ///< call stacks have no verdict, for want of intervals
        page_faults_only, ///< page faults were followed, and no allocation was seen
        nothing_live,     ///< all that was allocated meanwhile is freed
        partly_unknown,   ///< all of it is freed whose end could be seen, but there was more
        all_hidden,       ///< all that is live is left out by the prompt's ignore or only
        none_followed,    ///< there were allocations, and none could be followed
        nothing_seen,     ///< there was no allocation
        too_early,        ///< for all call stacks
        partly_too_early, ///< for some of them; none of the others grows
        steady,           ///< no call stack grows
    };
    Kind kind = Kind::nothing_seen;
    std::array<StackGroup, kVerdicts> by_verdict;
    StackGroup judged;   ///< those with a verdict
    StackGroup unjudged; ///< those without
    /// Call stacks that leak, and that the prompt's ignore or only leaves out. 0 if a leaking one
    /// is shown, for the report then says LEAK anyway.
    std::uint64_t hidden = 0;
    bool is_none_lost = false; ///< a look at all heaps has found no lost block
    /// Memory of which nobody knows whether it is live: allocations that could not be followed, and
    /// blocks that were set aside. Where it is not 0, there is no all-clear.
    std::uint64_t unfollowed = 0;
    BlockCount untracked;

    [[nodiscard]] const StackGroup& of(Verdict verdict) const {
        return by_verdict.at(static_cast<std::size_t>(verdict));
    }
    /// "; hidden: 1 call stack called leaking", or "".
    [[nodiscard]] std::string hidden_text() const;
    /// "2 allocations could not be followed, and 1.2 KiB in 5 blocks were set aside, of which
    /// nobody knows whether they are freed", or "".
    [[nodiscard]] std::string unknown_text() const;
};

Conclusion conclude(const Report& report);

/// "1.2 KiB in 5 blocks".
std::string amount_text(BlockCount count);

} // namespace memleax
