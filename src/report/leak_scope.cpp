// SPDX-License-Identifier: GPL-3.0-or-later
#include "leak_scope.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace memleax {

std::string LeakScope::text() const {
    return is_all() ? fmt::format("all {} processes", processes)
                    : fmt::format("{} of {} processes", known, processes);
}

LeakScope leak_scope(const Report& report) {
    if (!report.follows_forks) {
        return {report.leak_check && report.leak_check->complete ? 1U : 0U, 1};
    }
    const auto known =
        std::count_if(report.processes.begin(), report.processes.end(), [](const auto& process) {
            return process.leak_check && process.leak_check->complete;
        });
    return {static_cast<std::size_t>(known), report.processes.size()};
}

} // namespace memleax
