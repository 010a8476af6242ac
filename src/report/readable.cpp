// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/readable.hpp"

#include <array>
#include <cmath>
#include <cstddef>

#include <fmt/format.h>

namespace memleax {

std::string bytes_text(double bytes) {
    constexpr std::array kUnits{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    constexpr double kStep = 1024;
    std::size_t unit = 0;
    // Not 1024.0 KiB: what would be rounded up to that is 1.0 MiB.
    while (std::fabs(bytes) >= kStep - (unit == 0 ? 0.5 : 0.05) && unit + 1 < kUnits.size()) {
        bytes /= kStep;
        ++unit;
    }
    return fmt::format("{:.{}f} {}", bytes, unit == 0 ? 0 : 1, kUnits[unit]);
}

std::string change_text(double bytes) {
    return fmt::format("{}{}", bytes < 0 ? "-" : "+", bytes_text(std::fabs(bytes)));
}

std::string number_of(std::uint64_t count, std::string_view what) {
    return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

std::string share_text(double share) {
    const double percent = share * 100;
    if (percent > 0 && percent < 0.1) {
        return "<0.1%";
    }
    if (percent < 100 && percent > 99.9) {
        return ">99.9%";
    }
    return fmt::format("{:.{}f}%", percent, percent == std::floor(percent) ? 0 : 1);
}

} // namespace memleax
