// SPDX-License-Identifier: GPL-3.0-or-later
/// Backtraces as paths in a tree from the outermost frames inwards: what 10^5 call stacks have in
/// common is there once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include "memleax/events/source_frame.hpp"

namespace memleax {

/// Refers to the frames of the backtraces: they must outlive it.
class FrameTree {
  public:
    struct Node {
        std::uint32_t parent; ///< below its own number; 0 is the root
        std::uint32_t frame;
    };

    /// The node of the innermost frame; 0 for a backtrace without frames. `root`, if not null, is a
    /// frame outside of all.
    std::uint32_t insert(const Backtrace& backtrace, const SourceFrame* root = nullptr);

    /// Node 1 is the first, in order of their numbers.
    [[nodiscard]] const std::vector<Node>& nodes() const { return nodes_; }
    /// Those that differ.
    [[nodiscard]] const std::vector<const SourceFrame*>& frames() const { return frames_; }

  private:
    std::uint32_t number(const SourceFrame& frame);

    struct ContentHash {
        std::size_t operator()(const SourceFrame* frame) const;
    };
    struct ContentEqual {
        bool operator()(const SourceFrame* a, const SourceFrame* b) const { return *a == *b; }
    };
    absl::flat_hash_map<const SourceFrame*, std::uint32_t, ContentHash, ContentEqual> numbers_;
    std::vector<const SourceFrame*> frames_;
    absl::flat_hash_map<std::uint64_t, std::uint32_t> children_; ///< by parent and frame
    std::vector<Node> nodes_;
    std::vector<std::uint32_t> path_; ///< of the backtrace being inserted, innermost first
};

} // namespace memleax
