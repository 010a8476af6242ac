// SPDX-License-Identifier: GPL-3.0-or-later
#include "format_option.hpp"

#include <fmt/format.h>

#include "option_values.hpp"

namespace memleax {

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
    std::string text = "form of the report:";
    for (const ReportFormat& format : report_formats()) {
        text += fmt::format("\n{:<14}{}{}", format.name, format.what,
                            format.write != nullptr ? "" : " (not in this build)");
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
