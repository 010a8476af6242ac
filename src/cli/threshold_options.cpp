// SPDX-License-Identifier: GPL-3.0-or-later
#include "threshold_options.hpp"

#include <charconv>
#include <cmath>
#include <optional>
#include <string_view>
#include <system_error>

#include <fmt/format.h>

#include "option_values.hpp"

namespace memleax {

namespace {

/// What the kernel takes (kernel/sched/psi.c).
constexpr double kShortestWindowS = 0.5;
constexpr double kLongestWindowS = 10;

/// "G", "GB" and "GiB" are 2^30; nothing if it is no unit.
std::optional<double> unit_bytes(std::string_view unit) {
    if (unit.empty() || unit == "B") {
        return 1;
    }
    static constexpr std::string_view kUnits = "KMGT";
    const auto power =
        kUnits.find(unit[0] >= 'a' ? static_cast<char>(unit[0] - 'a' + 'A') : unit[0]);
    const std::string_view rest = unit.substr(1);
    if (power == std::string_view::npos || (!rest.empty() && rest != "B" && rest != "iB")) {
        return std::nullopt;
    }
    return std::exp2(10 * static_cast<double>(power + 1));
}

std::int64_t parse_us(const std::string& option, const std::string& text) {
    constexpr double kUsPerSecond = 1e6;
    return std::llround(parse_duration(option, text) * kUsPerSecond);
}

} // namespace

MemoryThreshold parse_memory_threshold(const std::string& option, const std::string& text) {
    constexpr double kMostBytes = 1e18;
    double number = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    const std::string_view unit(end, static_cast<std::size_t>(last - end));
    MemoryThreshold threshold;
    threshold.text = text;
    if (error == std::errc() && number > 0 && unit == "%" && number <= 100) {
        threshold.share = number / 100;
        return threshold;
    }
    const auto bytes = error == std::errc() ? unit_bytes(unit) : std::nullopt;
    if (!bytes || !(number * *bytes >= 1 && number * *bytes < kMostBytes)) { // nor a NaN
        throw UsageError(fmt::format("{}: '{}' is neither a percentage above 0 (as 90%) nor a size "
                                     "(as 800M, 1.5G)",
                                     option, text));
    }
    threshold.rss_bytes = static_cast<std::uint64_t>(number * *bytes);
    return threshold;
}

PressureThreshold parse_pressure_threshold(const std::string& option, const std::string& text) {
    PressureThreshold threshold{text, {}};
    const std::size_t colon = text.find(':');
    const std::string kind = text.substr(0, colon);
    if (kind != "some" && kind != "full") {
        throw UsageError(
            fmt::format("{}: '{}' is none of some, full, as in some:150ms/2s", option, kind));
    }
    threshold.stall.full = kind == "full";
    if (colon == std::string::npos) {
        return threshold;
    }
    const std::string times = text.substr(colon + 1);
    const std::size_t slash = times.find('/');
    threshold.stall.stall_us = parse_us(option, times.substr(0, slash));
    if (slash != std::string::npos) {
        const std::string window = times.substr(slash + 1);
        const double window_s = parse_duration(option, window);
        if (window_s < kShortestWindowS || window_s > kLongestWindowS) {
            throw UsageError(fmt::format("{}: a window of {} is none from 500ms to 10s, as the "
                                         "kernel wants it",
                                         option, window));
        }
        threshold.stall.window_us = parse_us(option, window);
    }
    if (threshold.stall.stall_us < 1 || threshold.stall.stall_us > threshold.stall.window_us) {
        throw UsageError(fmt::format("{}: nobody waits {} within a window of {} s", option,
                                     times.substr(0, slash),
                                     static_cast<double>(threshold.stall.window_us) / 1e6));
    }
    return threshold;
}

void check_thresholds(const Options& options) {
    if (!options.at_output.empty() && options.at_memory.empty() && !options.at_pressure) {
        throw UsageError("--at-output: goes with --at-memory or --at-pressure only");
    }
}

} // namespace memleax
