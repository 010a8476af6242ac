// SPDX-License-Identifier: GPL-3.0-or-later
#include "human_text.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

/// 1.42, 14.2, 142; without zeros behind the point.
std::string three_digits(double value) {
    const int decimals = value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    std::string text = fmt::format("{:.{}f}", value, decimals);
    if (decimals > 0) {
        text.erase(text.find_last_not_of('0') + 1);
        if (text.ends_with('.')) {
            text.pop_back();
        }
    }
    return text;
}

} // namespace

std::string human_count(BlockCount count) {
    return number_of(count.blocks, "block") + ", " + bytes_text(static_cast<double>(count.bytes));
}

std::string human_rate(double per_second) {
    static constexpr std::array kUnits{"", "k", "M", "G"};
    constexpr double kStep = 1000;
    std::size_t unit = 0;
    while (std::fabs(per_second) >= 999.5 && unit + 1 < kUnits.size()) {
        per_second /= kStep;
        ++unit;
    }
    return fmt::format("{}{}{}/s", per_second < 0 ? "-" : "", three_digits(std::fabs(per_second)),
                       kUnits[unit]);
}

std::string human_byte_rate(double per_second) {
    return fmt::format("{}{}/s", per_second < 0 ? "-" : "", bytes_text(std::fabs(per_second)));
}

std::string human_duration(double seconds) {
    constexpr std::int64_t kMinute = 60;
    constexpr std::int64_t kHour = 60 * kMinute;
    constexpr std::int64_t kDay = 24 * kHour;
    if (seconds < 1) {
        return fmt::format("{:.0f} ms", seconds * 1000);
    }
    if (seconds < static_cast<double>(kMinute)) {
        return three_digits(seconds) + " s";
    }
    const auto whole = static_cast<std::int64_t>(std::llround(seconds));
    if (whole < kHour) {
        return fmt::format("{} min {} s", whole / kMinute, whole % kMinute);
    }
    if (whole < kDay) {
        return fmt::format("{} h {} min", whole / kHour, whole % kHour / kMinute);
    }
    return fmt::format("{} d {} h", whole / kDay, whole % kDay / kHour);
}

} // namespace memleax
