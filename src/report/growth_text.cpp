// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/growth_text.hpp"

#include <array>
#include <cmath>

#include <fmt/format.h>

#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

struct Period {
    double seconds;
    const char* name;
    const char* sign;
};
constexpr std::array<Period, 3> kPeriods{
    {{1, " a second", "/s"}, {3600, " an hour", "/h"}, {86400, " a day", "/d"}}};

/// The first in which there are that many.
template <class Text>
std::string per_period(double per_s, double enough, GrowthStyle style, Text text) {
    const Period* period = kPeriods.begin();
    while (per_s * period->seconds < enough && period != &kPeriods.back()) {
        ++period;
    }
    return text(per_s * period->seconds) +
           (style == GrowthStyle::sentence ? period->name : period->sign);
}

} // namespace

std::string growth_text(double bytes_per_s, double blocks_per_s, GrowthStyle style) {
    constexpr double kMiB = 1024 * 1024;
    if (bytes_per_s > 0) {
        return per_period(bytes_per_s, kMiB, style, bytes_text);
    }
    if (blocks_per_s <= 0) {
        return "";
    }
    return per_period(blocks_per_s, 1, style, [style](double blocks) {
        const auto whole = static_cast<std::uint64_t>(std::llround(blocks));
        if (style == GrowthStyle::column) {
            return blocks < 1 ? std::string("<1") : fmt::format("{}", whole);
        }
        return blocks < 1 ? std::string("less than 1 block") : number_of(whole, "block");
    });
}

std::string growth_text(const Judgement& judgement) {
    return growth_text(judgement.bytes_per_s, judgement.blocks_per_s, GrowthStyle::sentence);
}

} // namespace memleax
