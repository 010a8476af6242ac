// SPDX-License-Identifier: GPL-3.0-or-later
#include "tracked_blocks.hpp"

#include <algorithm>
#include <cstddef>
#include <iterator>

namespace memleax {

namespace {

/// What is above is a resource's handle (handle_address()).
constexpr unsigned kAddressBits = 56;

bool is_memory(const Block& block) {
    const std::uint64_t begin = block.address.value();
    return begin >> kAddressBits == 0 && block.size <= (1ULL << kAddressBits) - begin;
}

std::uint64_t end_of(const Block& block) {
    return block.address.value() + block.size;
}

/// Of those that overlap, the youngest stay.
std::vector<Block> without_overlaps(std::vector<Block> blocks) {
    std::sort(blocks.begin(), blocks.end(),
              [](const Block& a, const Block& b) { return a.address < b.address; });
    std::vector<Block> result;
    result.reserve(blocks.size());
    for (const Block& block : blocks) {
        bool is_youngest = true;
        while (is_youngest && !result.empty() && end_of(result.back()) > block.address.value()) {
            is_youngest = result.back().time < block.time;
            if (is_youngest) {
                result.pop_back();
            }
        }
        if (is_youngest) {
            result.push_back(block);
        }
    }
    return result;
}

} // namespace

TrackedBlocks::TrackedBlocks(SharedTracker& tracker) : tracker_(tracker) {
    std::vector<Block> all;
    tracker.for_each_block([&all](const Block& block) {
        if (is_memory(block)) {
            all.push_back(block);
        }
    });
    const std::vector<Block> apart = without_overlaps(std::move(all));
    blocks_.reserve(apart.size());
    times_.reserve(apart.size());
    for (const Block& block : apart) {
        blocks_.push_back({block.address, block.size});
        times_.push_back(block.time);
    }
}

bool TrackedBlocks::drop_ended(HeapSnapshot* snapshot) const {
    constexpr std::size_t kAtOnce = 1024;
    const MonotonicNs taken = snapshot->time;
    const bool is_told = tracker_.with(
        [taken](Tracker& tracker) { return tracker.delivered_until(taken) == taken; });
    if (!is_told) {
        return false;
    }
    std::vector<bool> is_gone(blocks_.size());
    bool any = false;
    for (std::size_t begin = 0; begin < blocks_.size(); begin += kAtOnce) {
        tracker_.with([&](Tracker& tracker) {
            for (std::size_t i = begin; i < std::min(begin + kAtOnce, blocks_.size()); ++i) {
                const auto id = tracker.blocks().find(blocks_[i].address);
                is_gone[i] = !id || tracker.blocks()[*id].time != times_[i];
                any = any || is_gone[i];
            }
        });
    }
    if (any) {
        drop_blocks(is_gone, &snapshot->graph);
    }
    return true;
}

std::size_t count_unlisted(SharedTracker& tracker, const HeapSnapshot& snapshot) {
    const auto& blocks = snapshot.graph.blocks;
    const auto first_from = [&blocks](std::uint64_t at) {
        return std::partition_point(blocks.begin(), blocks.end(), [at](const HeapBlock& block) {
            return block.address.value() < at;
        });
    };
    // What is in a mapping with blocks of the heap, and in none of them, has been freed unseen.
    const auto is_of_heap = [&](RemoteAddr address) {
        const auto mapping = std::partition_point(
            snapshot.mappings.begin(), snapshot.mappings.end(),
            [address](const Mapping& each) { return each.range.end <= address.value(); });
        if (mapping == snapshot.mappings.end() || !mapping->range.contains(address)) {
            return true; // nothing is there
        }
        const auto first = first_from(mapping->range.begin);
        return first != blocks.end() && first->address.value() < mapping->range.end;
    };
    std::size_t unlisted = 0;
    tracker.for_each_block([&](const Block& block) {
        if (!is_memory(block) || block.time > snapshot.time) {
            return;
        }
        const std::uint64_t at = block.address.value();
        const auto behind = first_from(at + 1);
        const bool has_before = behind != blocks.begin();
        const bool is_listed = has_before && std::prev(behind)->address == block.address;
        const bool is_within =
            has_before && at < std::prev(behind)->address.value() + std::prev(behind)->size;
        unlisted += !is_listed && (is_within || !is_of_heap(block.address)) ? 1 : 0;
    });
    return unlisted;
}

} // namespace memleax
