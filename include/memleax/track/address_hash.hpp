// SPDX-License-Identifier: GPL-3.0-or-later
/// The hash of a block's address, for the tables that every event touches.
#pragma once

#include <cstdint>

#include "memleax/base/types.hpp"

namespace memleax {

/// Allocators hand out addresses that differ in a few middle bits only; the folded 128-bit product
/// (as in wyhash) spreads them over all 64 bits, so that a table may use the top bits to choose a
/// shard and the low ones within it.
inline std::uint64_t hash_address(RemoteAddr address) {
    __extension__ using Wide = unsigned __int128;
    const Wide product = Wide(address.value() ^ 0xa0761d6478bd642fULL) * 0xe7037ed1a0b428dbULL;
    return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64U);
}

} // namespace memleax
