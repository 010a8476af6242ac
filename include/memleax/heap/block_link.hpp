// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace memleax {

/// Where a pointer leads to: a block by its number, to its first byte or into it.
class BlockLink {
  public:
    constexpr BlockLink() = default;
    constexpr BlockLink(std::uint32_t block, bool interior)
        : bits_(block << 1 | (interior ? 1U : 0U)) {}
    [[nodiscard]] constexpr std::uint32_t block() const { return bits_ >> 1; }
    /// Not to the block's first byte.
    [[nodiscard]] constexpr bool is_interior() const { return (bits_ & 1U) != 0; }
    friend constexpr bool operator==(BlockLink, BlockLink) = default;

  private:
    std::uint32_t bits_ = 0;
};

/// So many blocks fit a BlockLink.
inline constexpr std::uint64_t kMostHeapBlocks = 1ULL << 31;

} // namespace memleax
