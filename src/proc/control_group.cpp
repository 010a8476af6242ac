// SPDX-License-Identifier: GPL-3.0-or-later
#include "control_group.hpp"

#include <optional>
#include <sstream>

#include <unistd.h>

#include "proc_file.hpp"

namespace memleax {

namespace {

bool has_word(const std::string& list, std::string_view word) {
    return ("," + list + ",").find(fmt::format(",{},", word)) != std::string::npos;
}

/// A line is HIERARCHY:CONTROLLERS:PATH; version 2's has no controllers.
std::optional<std::string> path_in(const std::string& line, std::string_view controller) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) {
        return std::nullopt;
    }
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const bool fits = controller.empty() ? controllers.empty() : has_word(controllers, controller);
    return fits ? std::optional(line.substr(second + 1)) : std::nullopt;
}

/// A line of mountinfo is one file system's (proc(5)).
std::optional<ControlGroup> group_at(const std::string& mount, const std::string& path,
                                     std::string_view controller) {
    std::istringstream words(mount);
    std::string id, parent, device, root, point, word;
    words >> id >> parent >> device >> root >> point;
    while (words >> word && word != "-") {
    }
    std::string type, source, options;
    words >> type >> source >> options;
    const bool fits =
        controller.empty() ? type == "cgroup2" : type == "cgroup" && has_word(options, controller);
    const std::string above = root == "/" ? "" : root;
    const bool is_in_it = path == above || path.starts_with(above + "/");
    if (!fits || !is_in_it) {
        return std::nullopt;
    }
    std::string below = path.substr(above.size());
    // "/..": outside of the namespace that we see (cgroup_namespaces(7)), and so of this mount.
    if ((below + "/").find("/../") != std::string::npos) {
        return std::nullopt;
    }
    return ControlGroup{controller.empty(), point, below == "/" ? "" : below};
}

} // namespace

std::vector<std::string> folders_up_from(ControlGroup group) {
    std::vector<std::string> folders;
    for (;;) {
        folders.push_back(group.folder());
        if (group.path.empty()) {
            return folders;
        }
        group.path.resize(group.path.rfind('/'));
    }
}

std::vector<ControlGroup> parse_control_groups(const std::string& groups, const std::string& mounts,
                                               std::string_view controller,
                                               const std::string& root) {
    std::vector<ControlGroup> found;
    std::istringstream group_lines(groups);
    for (std::string line; std::getline(group_lines, line);) {
        const auto path = path_in(line, controller);
        std::istringstream mount_lines(path ? mounts : std::string());
        for (std::string mount; std::getline(mount_lines, mount);) {
            if (auto group = group_at(mount, *path, controller)) {
                group->mount.insert(0, root);
                found.push_back(*std::move(group));
            }
        }
    }
    return found;
}

std::vector<ControlGroup> control_groups_of(Tid pid, std::string_view controller) {
    const std::string process = fmt::format("/proc/{}/", pid.value());
    const auto groups = try_read_proc_file(process + "cgroup");
    if (!groups) {
        return {};
    }
    const auto found_by = [&](const std::string& mounts_file, const std::string& root) {
        const auto mounts = try_read_proc_file(mounts_file);
        auto found = parse_control_groups(*groups, mounts.value_or(""), controller, root);
        std::erase_if(found, [](const ControlGroup& group) {
            return access((group.folder() + "/cgroup.procs").c_str(), F_OK) != 0;
        });
        return found;
    };
    auto found = found_by("/proc/self/mountinfo", "");
    return found.empty() ? found_by(process + "mountinfo", process + "root") : found;
}

} // namespace memleax
