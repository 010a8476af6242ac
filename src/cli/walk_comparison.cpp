// SPDX-License-Identifier: GPL-3.0-or-later
#include "walk_comparison.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "memleax/report/place_text.hpp"

namespace memleax {

namespace {

/// The function itself is the last of what is inlined into it.
const SourceFrame& function_of(const ResolvedFrame& frame) {
    return frame->back();
}

/// A line for each frame, and one for the end.
std::vector<std::string> lines_of(const NamedWalk& walk, NameStyle style) {
    std::vector<std::string> lines;
    for (const ResolvedFrame& frame : walk.frames.machine_frames()) {
        lines.push_back(fmt::format("0x{:016x}  {}", function_of(frame).pc.value(),
                                    place_text(function_of(frame), style)));
    }
    lines.push_back(walk.end == StackEnd::outermost
                        ? "(the outermost frame)"
                        : fmt::format("(no further frames: {})", describe(walk.end)));
    return lines;
}

} // namespace

std::optional<std::size_t> first_difference(const NamedWalk& one, const NamedWalk& other) {
    const std::span<const ResolvedFrame> a = one.frames.machine_frames();
    const std::span<const ResolvedFrame> b = other.frames.machine_frames();
    const auto differ =
        std::mismatch(a.begin(), a.end(), b.begin(), b.end(),
                      [](const ResolvedFrame& left, const ResolvedFrame& right) {
                          return function_of(left).address() == function_of(right).address();
                      });
    if (differ.first == a.end() && differ.second == b.end() && one.end == other.end) {
        return std::nullopt;
    }
    return static_cast<std::size_t>(differ.first - a.begin());
}

std::string walks_side_by_side(const Console& console, const NamedWalk& own,
                               const NamedWalk& libunwind, NameStyle style) {
    constexpr std::size_t kMargin = 7; // "  * 12 "
    constexpr std::size_t kGap = 2;
    constexpr std::size_t kLeast = 24; // an address and a bit
    const std::vector<std::string> left = lines_of(own, style);
    const std::vector<std::string> right = lines_of(libunwind, style);
    std::size_t width = kLeast;
    for (const std::string& line : left) {
        width = std::max(width, line.size());
    }
    const std::size_t half =
        (std::max<std::size_t>(console.columns(), kMargin + 2 * kLeast + kGap) - kMargin - kGap) /
        2;
    width = std::min(width, half);
    const auto row = [&](const std::string& margin, const std::string& a, const std::string& b) {
        const std::string text = fmt::format("{}{:<{}}{:{}}{}", margin, shortened(a, width), width,
                                             "", kGap, shortened(b, half));
        return text.substr(0, text.find_last_not_of(' ') + 1) + "\n";
    };
    const auto differs = first_difference(own, libunwind);
    std::string text =
        console.styled(Style::heading, row(std::string(kMargin, ' '), "memleax", "libunwind"));
    for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
        const bool is_first = differs && *differs == i;
        const std::string line =
            row(fmt::format("  {} {:>2} ", is_first ? '*' : ' ', i), i < left.size() ? left[i] : "",
                i < right.size() ? right[i] : "");
        text += is_first ? console.styled(Style::bad, line) : line;
    }
    return text;
}

} // namespace memleax
