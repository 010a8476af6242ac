// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace memleax {

/// A number of blocks and the sum of the bytes that the program asked for.
struct BlockCount {
    std::uint64_t blocks = 0;
    std::uint64_t bytes = 0;

    void add(std::uint64_t size) {
        ++blocks;
        bytes += size;
    }
    friend BlockCount operator+(BlockCount a, BlockCount b) {
        return {a.blocks + b.blocks, a.bytes + b.bytes};
    }
    friend BlockCount operator-(BlockCount a, BlockCount b) {
        return {a.blocks - b.blocks, a.bytes - b.bytes};
    }
    friend bool operator==(const BlockCount&, const BlockCount&) = default;
};

} // namespace memleax
