// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/coverage.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

/// Less may be stacks, code that was loaded, and pages that were there and are touched now.
constexpr std::int64_t kLeastGrowth = std::int64_t{4} << 20;

} // namespace

std::optional<Coverage> coverage_of(std::span<const Report::MemorySample> memory,
                                    std::optional<std::uint64_t> mapped) {
    const auto is_known = [](const Report::MemorySample& sample) { return sample.rss_bytes != 0; };
    const auto first = std::find_if(memory.begin(), memory.end(), is_known);
    if (first == memory.end()) {
        return std::nullopt;
    }
    const auto last = std::find_if(memory.rbegin(), memory.rend(), is_known);
    Coverage coverage;
    coverage.rss_growth =
        static_cast<std::int64_t>(last->rss_bytes) - static_cast<std::int64_t>(first->rss_bytes);
    // What was freed may stay with the allocator: the most counts, not the last.
    for (const Report::MemorySample& sample : memory) {
        coverage.watched = std::max(coverage.watched, sample.live_bytes);
    }
    coverage.watched += mapped.value_or(0);
    coverage.tracks_mappings = mapped.has_value();
    coverage.is_gap = coverage.rss_growth >= kLeastGrowth &&
                      coverage.watched < static_cast<std::uint64_t>(coverage.rss_growth) / 2;
    return coverage;
}

std::optional<Coverage> coverage_of(const Report& report) {
    return coverage_of(report.memory, report.mapped
                                          ? std::optional(mapped_bytes(report.mapped->live))
                                          : std::nullopt);
}

std::uint64_t mapped_bytes(const std::array<BlockCount, kMemoryKinds>& live) {
    std::uint64_t bytes = 0;
    for (const MemoryKind kind : {MemoryKind::mmap, MemoryKind::brk, MemoryKind::shm}) {
        bytes += live.at(static_cast<std::size_t>(kind)).bytes;
    }
    return bytes;
}

std::string Coverage::text() const {
    return fmt::format("RSS {}, watched {} +{}{}", change_text(static_cast<double>(rss_growth)),
                       tracks_mappings ? "memory" : "blocks",
                       bytes_text(static_cast<double>(watched)),
                       !is_gap           ? ""
                       : tracks_mappings ? ": the rest was there before, or was mapped unseen"
                                         : ": try --track heap,mmap");
}

} // namespace memleax
