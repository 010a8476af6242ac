// SPDX-License-Identifier: GPL-3.0-or-later
/// Numbers as people read them at the prompt; readable.hpp has those that reports use as well.
#pragma once

#include <cstdint>
#include <string>

#include "memleax/track/block_count.hpp"

namespace memleax {

/// "12 blocks, 1.4 MiB"
std::string human_count(BlockCount count);
/// Events in a second: "312/s", "0.02/s", "1.2M/s".
std::string human_rate(double per_second);
/// "1.4 MiB/s"
std::string human_byte_rate(double per_second);
/// "34 ms", "2.5 s", "12 min 3 s", "5 h 12 min", "3 d 4 h"
std::string human_duration(double seconds);

} // namespace memleax
