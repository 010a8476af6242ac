// SPDX-License-Identifier: GPL-3.0-or-later
#include "format_option.hpp"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "option_values.hpp"

namespace memleax {

namespace {

/// Lines of so many characters at most, the further ones with a margin.
std::string wrapped(std::string_view text, std::size_t width, std::size_t margin) {
    std::string result;
    while (text.size() > width) {
        const std::size_t blank = text.rfind(' ', width);
        if (blank == std::string_view::npos) {
            break;
        }
        result.append(text.substr(0, blank)).append("\n").append(margin, ' ');
        text.remove_prefix(blank + 1);
    }
    return result.append(text);
}

} // namespace

std::vector<std::string> format_names() {
    std::vector<std::string> names;
    for (const ReportFormat& format : report_formats()) {
        if (format.write != nullptr) {
            names.emplace_back(format.name);
        }
    }
    return names;
}

std::string format_help() {
    constexpr std::size_t kWidth = 49; // beside the options' names, on a terminal of 80 columns
    std::size_t column = 0;
    for (const ReportFormat& format : report_formats()) {
        column = std::max(column, std::string_view(format.name).size() + 1);
    }
    std::string text = "form of the report:";
    for (const ReportFormat& format : report_formats()) {
        const std::string what =
            fmt::format("{}{}", format.what, format.write != nullptr ? "" : " (not in this build)");
        text +=
            fmt::format("\n{:<{}}{}", format.name, column, wrapped(what, kWidth - column, column));
    }
    return text;
}

const ReportFormat* parse_format(const std::string& option, const std::string& text) {
    const ReportFormat* format = find_report_format(text);
    if (format != nullptr && format->write == nullptr) {
        throw UsageError(fmt::format("{}: this build is without {}: {}", option, format->name,
                                     format->why_without));
    }
    Names<const ReportFormat*> names;
    for (const std::string& name : format_names()) {
        names.emplace(name, find_report_format(name));
    }
    return parse_name(option, text, names);
}

} // namespace memleax
