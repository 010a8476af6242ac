// SPDX-License-Identifier: GPL-3.0-or-later
/// Which blocks can a program still get at? The classes are memcheck's ("Memcheck: a memory error
/// detector", section 4.2.8), by its rules.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "memleax/analysis/root_groups.hpp"
#include "memleax/base/large_vector.hpp"
#include "memleax/heap/heap_graph.hpp"
#include "memleax/track/block_count.hpp"

namespace memleax {

enum class LossClass : std::uint8_t {
    definite, ///< no chain of pointers leads to it, nor to another lost block that leads to it
    indirect, ///< only blocks that are lost point to it; of a cycle that nothing else points to,
              ///< the block with the lowest address is definitely lost and the others are
              ///< indirectly
    possible, ///< each chain has a pointer that is not to a block's first byte
    reachable ///< there is a chain of pointers to blocks' first bytes, from a root on
};
inline constexpr std::size_t kLossClasses = 4;

struct Reachability {
    LargeVector<LossClass> classes; ///< of each block of the graph
    /// Of each block, whose roots the shortest chain of pointers to it begins with: a variable's;
    /// a stack's or a register's only where no variable leads. kNoGroup: nothing that is known.
    LargeVector<std::uint32_t> groups;
    std::array<BlockCount, kLossClasses> totals{}; ///< by LossClass
    [[nodiscard]] const BlockCount& total(LossClass which) const {
        return totals[static_cast<std::size_t>(which)];
    }
};

/// Linear in blocks and links; 5 bytes a block, besides a list of those that are to be followed.
[[nodiscard]] Reachability classify(const HeapGraph& graph, const RootGroups& roots);

/// What would be lost without each group, by its number: blocks to which all chains begin with its
/// roots, and no lost block leads. What two groups hold is in neither's. Linear; a bit a block.
[[nodiscard]] std::vector<BlockCount>
held_by_groups(const HeapGraph& graph, const RootGroups& roots, const Reachability& reached);

} // namespace memleax
