// SPDX-License-Identifier: GPL-3.0-or-later
/// The control groups of a process, version 1 and 2 and both at once, and where their files are for
/// us (cgroups(7)).
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

struct ControlGroup {
    bool version_2 = false;
    std::string mount; ///< the folder that the hierarchy, or a part of it, is mounted at
    std::string path;  ///< of the group below it; "" for the uppermost one that we can see

    [[nodiscard]] std::string folder() const { return mount + path; }
};

/// Of this group and of those above it that we can see, from below.
std::vector<std::string> folders_up_from(ControlGroup group);

/// From the texts of /proc/PID/cgroup and of a /proc/.../mountinfo: where the group may be that has
/// `controller` ("memory", "freezer") in version 1; "" means that of version 2. `root` is put
/// before each mount point.
std::vector<ControlGroup> parse_control_groups(const std::string& groups, const std::string& mounts,
                                               std::string_view controller,
                                               const std::string& root = "");

/// Those of the process whose folder is there: by our own mounts, and, where these have none, by
/// the process's, through /proc/PID/root.
std::vector<ControlGroup> control_groups_of(Tid pid, std::string_view controller);

} // namespace memleax
