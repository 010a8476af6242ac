// SPDX-License-Identifier: GPL-3.0-or-later
/// What is told at its 1st, its 10th, its 100th time, ...
#pragma once

#include <cstdint>

namespace memleax {

/// Of 0: no.
constexpr bool is_power_of_ten(std::uint64_t n) {
    while (n != 0 && n % 10 == 0) {
        n /= 10;
    }
    return n == 1;
}

} // namespace memleax
