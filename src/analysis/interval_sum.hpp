// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "memleax/analysis/verdict.hpp"

namespace memleax {

using IntervalSpan = std::span<const IntervalCount>;

/// What happened in some intervals.
struct IntervalSum {
    BlockCount alloc;
    BlockCount live;
    double seconds = 0;
    std::size_t with_live = 0;

    explicit IntervalSum(IntervalSpan intervals) {
        for (const IntervalCount& i : intervals) {
            alloc.blocks += i.alloc.blocks;
            alloc.bytes += i.alloc.bytes;
            live.blocks += i.live.blocks;
            live.bytes += i.live.bytes;
            seconds += memleax::seconds(i.end.value() - i.begin.value());
            with_live += i.live.blocks != 0 ? 1 : 0;
        }
    }
    [[nodiscard]] double share() const {
        return alloc.blocks == 0
                   ? 0
                   : static_cast<double>(live.blocks) / static_cast<double>(alloc.blocks);
    }
    /// Bytes of a block, on average.
    [[nodiscard]] double size() const { return mean(alloc); }
    [[nodiscard]] double live_size() const { return mean(live); }
    [[nodiscard]] double blocks_per_s() const { return per_second(live.blocks); }
    [[nodiscard]] double bytes_per_s() const { return per_second(live.bytes); }

  private:
    static double mean(const BlockCount& count) {
        return count.blocks == 0
                   ? 0
                   : static_cast<double>(count.bytes) / static_cast<double>(count.blocks);
    }
    [[nodiscard]] double per_second(std::uint64_t n) const {
        return seconds <= 0 ? 0 : static_cast<double>(n) / seconds;
    }
};

} // namespace memleax
