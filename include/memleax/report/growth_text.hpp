// SPDX-License-Identifier: GPL-3.0-or-later
/// Rates over the time that makes them easy to read.
#pragma once

#include <cstdint>
#include <string>

#include "memleax/analysis/verdict.hpp"

namespace memleax {

enum class GrowthStyle : std::uint8_t {
    sentence, ///< "5.2 MiB an hour", "3 blocks a second"
    column    ///< "5.2 MiB/h", "3/s" (blocks)
};

/// The rate at which blocks come to stay: of bytes, or, where there are none, of blocks. "" if none
/// do.
std::string growth_text(double bytes_per_s, double blocks_per_s, GrowthStyle style);
std::string growth_text(const Judgement& judgement);

} // namespace memleax
