// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/freezer.hpp"

#include <string_view>

#include "control_group.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

/// Both tell of what was frozen further up as well.
std::optional<std::string> file_of_freezer(const ControlGroup& group) {
    const std::string path =
        group.folder() + "/" + (group.version_2 ? "cgroup.events" : "freezer.state");
    const auto text = try_read_proc_file(path);
    const std::string_view word = group.version_2 ? "frozen 1" : "FR"; // FROZEN, FREEZING
    return text && text->find(word) != std::string::npos ? std::optional(path) : std::nullopt;
}

} // namespace

std::optional<std::string> file_of_freezer(Tid pid) {
    for (const char* controller : {"freezer", ""}) {
        for (const ControlGroup& group : control_groups_of(pid, controller)) {
            if (auto file = file_of_freezer(group)) {
                return file;
            }
        }
    }
    return std::nullopt;
}

} // namespace memleax
