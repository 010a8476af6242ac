// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstddef>
#include <cstdint>

#include "memleax/base/large_vector.hpp"

namespace memleax {

/// How far behind the begin of each block pointers lead to it, as far as that may be a header that
/// whoever wraps malloc puts before what it gives: some words. A byte a block.
class PointerOffsets {
  public:
    static constexpr std::uint64_t kWord = 8;
    static constexpr std::size_t kMostWords = 8;

    [[nodiscard]] bool empty() const { return marks_.empty(); }
    void resize(std::size_t blocks) { marks_.resize(blocks); }
    /// Of a pointer into a block, so many bytes behind its begin.
    void add(std::uint32_t block, std::uint64_t offset) {
        if (offset % kWord == 0 && offset - 1 < kWord * kMostWords) { // nor 0
            marks_[block] |= static_cast<std::uint8_t>(1U << (offset / kWord - 1));
        }
    }
    /// 1 to kMostWords.
    [[nodiscard]] bool has(std::uint32_t block, std::size_t words) const {
        return (marks_[block] >> (words - 1) & 1U) != 0;
    }
    /// The next block has those of this one of `other`.
    void push_back_of(const PointerOffsets& other, std::uint32_t block) {
        marks_.push_back(other.marks_[block]);
    }

  private:
    LargeVector<std::uint8_t> marks_;
};

} // namespace memleax
