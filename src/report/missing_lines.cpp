// SPDX-License-Identifier: GPL-3.0-or-later
#include "missing_lines.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "memleax/base/printable.hpp"

namespace memleax {

namespace {

constexpr std::size_t kMostFiles = 3;

/// The last components of their paths, each once. Code that is in no file has none.
std::vector<std::string> files_without_lines(const Report& report) {
    std::vector<std::string> files;
    for (const CallStackReport& stack : report.callstacks) {
        if ((stack.may_leak().blocks == 0 && !stack.is_leaking()) || stack.frames.empty()) {
            continue;
        }
        const SourceFrame& place = *stack.frames.at(where_of(stack));
        if (place.file.empty() && !place.module.empty() && place.module.front() != '[' &&
            std::find(files.begin(), files.end(), place.module) == files.end()) {
            files.push_back(place.module);
        }
    }
    return files;
}

/// " (build ID 5a3f...)", by which debug information is found; "" if it has none.
std::string build_id_of(const Report& report, const std::string& file) {
    const auto module =
        std::find_if(report.modules.begin(), report.modules.end(), [&](const auto& each) {
            return each.path.substr(each.path.rfind('/') + 1) == file;
        });
    return module == report.modules.end() || module->build_id.empty()
               ? ""
               : fmt::format(" (build ID {})", module->build_id);
}

} // namespace

std::string missing_lines_text(const Report& report) {
    const std::vector<std::string> files = files_without_lines(report);
    if (files.empty()) {
        return "";
    }
    std::string names;
    for (std::size_t i = 0; i < std::min(files.size(), kMostFiles); ++i) {
        names += fmt::format("{}{}{}", i == 0 ? "" : ", ", printable(files[i]),
                             build_id_of(report, files[i]));
    }
    if (files.size() > kMostFiles) {
        names += fmt::format(" and {} more", files.size() - kMostFiles);
    }
    const bool is_one = files.size() == 1;
    return fmt::format("== No line numbers for {}: install {} debug package{}, set "
                       "DEBUGINFOD_URLS, or compile {} with -g.\n",
                       names, is_one ? "its" : "their", is_one ? "" : "s", is_one ? "it" : "them");
}

} // namespace memleax
