// SPDX-License-Identifier: GPL-3.0-or-later
#include "group_memory.hpp"

#include <algorithm>

#include "named_numbers.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

std::uint64_t room(std::uint64_t limit, std::uint64_t used) {
    return limit - std::min(limit, used);
}

void read_version_1(const std::string& folder, GroupMemory* memory) {
    memory->at_limit = try_read_number(folder + "/memory.failcnt");
    const auto control = try_read_proc_file(folder + "/memory.oom_control").value_or("");
    memory->oom_kills = named_number(control, "oom_kill"); // since Linux 4.13
    const auto stat = try_read_proc_file(folder + "/memory.stat").value_or("");
    memory->inactive_file = named_number(stat, "total_inactive_file");
}

void read_version_2(const std::string& folder, GroupMemory* memory) {
    memory->high = try_read_number(folder + "/memory.high");
    const auto events = try_read_proc_file(folder + "/memory.events").value_or("");
    memory->at_limit = named_number(events, "max");
    memory->above_high = named_number(events, "high");
    memory->out_of_memory = named_number(events, "oom");
    memory->oom_kills = named_number(events, "oom_kill");
    const auto stat = try_read_proc_file(folder + "/memory.stat").value_or("");
    memory->inactive_file = named_number(stat, "inactive_file");
}

} // namespace

bool is_root_group(const ControlGroup& group) {
    return group.path.empty() &&
           !try_read_proc_file(group.folder() + "/cgroup.events") && // version 2
           (group.version_2 ||
            try_read_number(group.folder() + "/memory.limit_in_bytes") >= kNoMemoryLimit);
}

GroupMemory read_group_memory(const ControlGroup& own) {
    GroupMemory found;
    found.version_2 = own.version_2;
    ControlGroup group = own;
    for (;;) {
        const std::string folder = group.folder();
        const auto current = try_read_number(
            folder + (own.version_2 ? "/memory.current" : "/memory.usage_in_bytes"));
        auto limit =
            try_read_number(folder + (own.version_2 ? "/memory.max" : "/memory.limit_in_bytes"));
        limit = limit >= kNoMemoryLimit ? std::nullopt : limit;
        const bool is_first = found.folder.empty() && current && !is_root_group(group);
        const bool is_next = current && limit &&
                             (!found.limit || room(*limit, *current) <
                                                  room(*found.limit, found.current.value_or(0)));
        if (is_first || is_next) {
            found.folder = folder;
            found.path = group.path.empty() ? "/" : group.path;
            found.current = current;
            found.limit = limit;
        }
        if (group.path.empty()) { // in a container, this one may have a limit as well
            break;
        }
        group.path.resize(group.path.rfind('/'));
    }
    if (!found.folder.empty() && own.version_2) {
        read_version_2(found.folder, &found);
    } else if (!found.folder.empty()) {
        read_version_1(found.folder, &found);
    }
    return found;
}

GroupMemory read_group_memory(Tid pid) {
    GroupMemory memory;
    const auto version_2 = control_groups_of(pid, "");
    for (const auto& groups : {control_groups_of(pid, "memory"), version_2}) {
        if (!groups.empty() && memory.folder.empty()) {
            memory = read_group_memory(groups.front());
        }
    }
    if (!version_2.empty() && !is_root_group(version_2.front())) {
        const auto text = try_read_proc_file(version_2.front().folder() + "/memory.pressure");
        memory.pressure = text ? parse_memory_pressure(*text) : std::nullopt;
    }
    return memory;
}

GroupMemory look_again(const GroupMemory& before) {
    if (before.folder.empty()) {
        return before;
    }
    GroupMemory now = read_group_memory(ControlGroup{before.version_2, before.folder, ""});
    if (now.folder.empty()) { // it has gone with its last process
        return before;
    }
    now.path = before.path;
    now.pressure = before.pressure;
    return now;
}

} // namespace memleax
