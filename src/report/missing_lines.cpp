// SPDX-License-Identifier: GPL-3.0-or-later
#include "missing_lines.hpp"

#include <algorithm>
#include <cstddef>
#include <vector>

#include <fmt/format.h>

#include "memleax/base/printable.hpp"
#include "module_index.hpp"

namespace memleax {

namespace {

constexpr std::size_t kMostFiles = 3;

/// A file of the target, and its build ID.
std::string described(const std::string& name, const Report::Module& module) {
    return module.build_id.empty()
               ? printable(name)
               : fmt::format("{} (build ID {})", printable(name), module.build_id);
}

/// Each once. Code that is in no file, as what is made at run time, has none.
std::vector<std::string> files_without_lines(const Report& report) {
    const ModuleIndex modules(report.modules);
    std::vector<std::string> files;
    for (const CallStackReport& stack : report.callstacks) {
        if (!stack.is_in_text() || stack.frames.empty()) {
            continue;
        }
        const SourceFrame& place = *stack.frames.at(where_of(stack));
        const auto module = place.file.empty() ? modules.find(place) : std::nullopt;
        if (!module || !report.modules[*module].path.starts_with('/')) {
            continue;
        }
        std::string file = described(place.module, report.modules[*module]);
        if (std::find(files.begin(), files.end(), file) == files.end()) {
            files.push_back(std::move(file));
        }
    }
    return files;
}

} // namespace

std::string missing_lines_text(const Report& report) {
    const std::vector<std::string> files = files_without_lines(report);
    if (files.empty()) {
        return "";
    }
    const std::size_t named = std::min(files.size(), kMostFiles);
    std::string names = fmt::format("{}", fmt::join(files.begin(), files.begin() + named, ", "));
    if (files.size() > named) {
        names += fmt::format(" and {} more", files.size() - named);
    }
    const bool is_one = files.size() == 1;
    return fmt::format("== No line numbers for {}: install {} debug package{}, set "
                       "DEBUGINFOD_URLS, or compile {} with -g.\n",
                       names, is_one ? "its" : "their", is_one ? "" : "s", is_one ? "it" : "them");
}

} // namespace memleax
