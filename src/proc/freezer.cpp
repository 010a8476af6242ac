// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/freezer.hpp"

#include <sstream>
#include <string_view>

#include "proc_file.hpp"

namespace memleax {

namespace {

/// A line of /proc/PID/cgroup: HIERARCHY:CONTROLLERS:PATH (cgroups(7)).
struct Group {
    bool version_2 = false; ///< else it is version 1's freezer
    std::string path;
};

std::optional<Group> parse_group(const std::string& line) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
        return std::nullopt;
    }
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    Group group{controllers == ",,", line.substr(second + 1)};
    const bool can_freeze = group.version_2 || controllers.find(",freezer,") != std::string::npos;
    return can_freeze ? std::optional(group) : std::nullopt;
}

/// Where the group is for us; a line of /proc/self/mountinfo is one file system's (proc(5)).
std::optional<std::string> folder_in(const std::string& mount, const Group& group) {
    std::istringstream words(mount);
    std::string id, parent, device, root, point, word;
    words >> id >> parent >> device >> root >> point;
    while (words >> word && word != "-") {
    }
    std::string type, source, options;
    words >> type >> source >> options;
    const bool fits =
        group.version_2
            ? type == "cgroup2"
            : type == "cgroup" && ("," + options + ",").find(",freezer,") != std::string::npos;
    if (!fits) {
        return std::nullopt;
    }
    if (root == "/") {
        return point + group.path;
    }
    const bool is_in_it = group.path == root || group.path.starts_with(root + "/");
    return is_in_it ? std::optional(point + group.path.substr(root.size())) : std::nullopt;
}

/// Both tell of what was frozen further up as well.
std::optional<std::string> file_of_freezer(const Group& group, const std::string& folder) {
    const std::string path = folder + "/" + (group.version_2 ? "cgroup.events" : "freezer.state");
    const auto text = try_read_proc_file(path);
    const std::string_view word = group.version_2 ? "frozen 1" : "FR"; // FROZEN, FREEZING
    return text && text->find(word) != std::string::npos ? std::optional(path) : std::nullopt;
}

} // namespace

std::optional<std::string> file_of_freezer(Tid pid) {
    const auto groups = try_read_proc_file(fmt::format("/proc/{}/cgroup", pid.value()));
    const auto mounts = groups ? try_read_proc_file("/proc/self/mountinfo") : std::nullopt;
    if (!mounts) {
        return std::nullopt;
    }
    std::istringstream group_lines(*groups);
    for (std::string line; std::getline(group_lines, line);) {
        const auto group = parse_group(line);
        std::istringstream mount_lines(group ? *mounts : std::string());
        for (std::string mount; std::getline(mount_lines, mount);) {
            const auto folder = folder_in(mount, *group);
            if (auto file = folder ? file_of_freezer(*group, *folder) : std::nullopt) {
                return file;
            }
        }
    }
    return std::nullopt;
}

} // namespace memleax
