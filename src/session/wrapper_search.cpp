// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/wrapper_search.hpp"

#include <algorithm>

namespace memleax {

namespace {

/// Names are looked up for these many call stacks, and for their innermost frames only.
constexpr std::size_t kStacks = 256;
constexpr std::size_t kFrames = 12;
constexpr std::size_t kMore = 8; ///< an eighth

} // namespace

const Wrappers& WrapperSearch::find(ProcessAccount& process) {
    Found& found = found_.try_emplace(&process, Found{Wrappers(globs_), 0}).first->second;
    std::vector<StackId> stacks;
    const std::size_t count = process.tracker().with([&](Tracker& tracker) {
        const std::size_t all = tracker.stacks().size();
        if (all <= found.stacks + found.stacks / kMore) {
            return found.stacks;
        }
        // The number of each one's place, of kStacks that divide them all.
        const std::size_t chosen = std::min(all, kStacks);
        for (std::size_t i = 0; i < chosen; ++i) {
            stacks.emplace_back(static_cast<std::uint32_t>(i * all / chosen));
        }
        return all;
    });
    if (count == found.stacks) {
        return found.wrappers;
    }
    found.stacks = count;
    std::vector<Backtrace> backtraces;
    backtraces.reserve(stacks.size());
    for (const StackId id : stacks) {
        backtraces.push_back(process.names().resolve(id, kFrames));
    }
    found.wrappers.learn(backtraces);
    return found.wrappers;
}

} // namespace memleax
