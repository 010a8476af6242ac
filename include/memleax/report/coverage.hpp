// SPDX-License-Identifier: GPL-3.0-or-later
/// Do the blocks that we watch explain how the process grows?
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "memleax/report/report.hpp"

namespace memleax {

struct Coverage {
    std::int64_t rss_growth = 0;  ///< bytes, since the watching began
    std::uint64_t watched = 0;    ///< bytes of blocks that were live at once, at most; and mapped
    bool is_gap = false;          ///< most of the growth is not explained
    bool tracks_mappings = false; ///< mapped memory is in `watched`

    /// "RSS +24.0 MiB, watched blocks +11.0 KiB: try --track heap,mmap"
    [[nodiscard]] std::string text() const;
};

/// `mapped`: bytes of the mappings that are watched and live; absent: mapped memory is not tracked.
/// Nothing if RSS is not known.
std::optional<Coverage> coverage_of(std::span<const Report::MemorySample> memory,
                                    std::optional<std::uint64_t> mapped);
std::optional<Coverage> coverage_of(const Report& report);

/// Of those that programs have mapped for themselves.
std::uint64_t mapped_bytes(const std::array<BlockCount, kMemoryKinds>& live);

} // namespace memleax
