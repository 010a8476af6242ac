// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/memory_room.hpp"

#include <algorithm>
#include <optional>

#include <fmt/format.h>

#include "control_group.hpp"
#include "group_memory.hpp"
#include "memleax/proc/meminfo.hpp"
#include "memleax/proc/process_memory.hpp"
#include "named_numbers.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

/// Cache that the kernel takes back before it kills, or slows down, anybody. Version 1 has the
/// groups below in `total_`.
std::uint64_t read_inactive_file(const std::string& stat) {
    const auto text = try_read_proc_file(stat).value_or("");
    const auto with_those_below = named_number(text, "total_inactive_file");
    return with_those_below ? *with_those_below : named_number(text, "inactive_file").value_or(0);
}

} // namespace

MemoryRoom::MemoryRoom(Tid pid) : is_machine_asked_(true) {
    const auto overcommit = try_read_proc_file("/proc/sys/vm/overcommit_memory");
    may_overcommit_ = !overcommit || may_overcommit(*overcommit);
    for (const char* controller : {"memory", ""}) { // version 1, version 2
        for (const ControlGroup& group : control_groups_of(pid, controller)) {
            add(group);
        }
    }
}

MemoryRoom::MemoryRoom(const std::vector<ControlGroup>& groups) {
    std::for_each(groups.begin(), groups.end(), [this](const auto& group) { add(group); });
}

void MemoryRoom::add(const ControlGroup& group) {
    for (const std::string& folder : folders_up_from(group)) {
        const std::string stat = folder + "/memory.stat";
        if (group.version_2) {
            const std::string used = folder + "/memory.current";
            limits_.push_back({used, folder + "/memory.max", stat});
            limits_.push_back({used, folder + "/memory.high", stat});
        } else {
            const std::string with_swap = folder + "/memory.memsw.";
            limits_.push_back(
                {folder + "/memory.usage_in_bytes", folder + "/memory.limit_in_bytes", stat});
            limits_.push_back(
                {with_swap + "usage_in_bytes", with_swap + "limit_in_bytes", stat, true});
        }
    }
}

// The cache is asked for last: on a large machine the kernel has to add up counters for that.
bool MemoryRoom::has(const Limit& limit, std::uint64_t bytes) {
    const auto most = try_read_number(limit.limit);
    if (!most || *most >= kNoMemoryLimit) {
        return true;
    }
    const auto used = try_read_number(limit.used);
    if (!used) {
        return false;
    }
    const auto fits = [bytes, most](std::uint64_t in_use) {
        return in_use <= *most && *most - in_use >= bytes;
    };
    return fits(*used) || fits(*used - std::min(*used, read_inactive_file(limit.stat)));
}

Result<void> MemoryRoom::check(std::uint64_t bytes, const char* what, bool are_swapped) const {
    const bool is_in_groups =
        std::all_of(limits_.begin(), limits_.end(), [bytes, are_swapped](const auto& each) {
            return (are_swapped && each.with_swap) || has(each, bytes);
        });
    if (!is_in_groups) {
        return Error(fmt::format("its control group has no room for {}", what));
    }
    if (!is_machine_asked_) {
        return {};
    }
    const MachineMemory machine = read_meminfo();
    if (machine.available.value_or(0) < bytes) {
        return Error(fmt::format("the machine has no room for {}", what));
    }
    if (!are_swapped && !may_overcommit_ && left_to_promise(machine) < bytes) {
        return Error(fmt::format(
            "the machine may not promise room for {} (vm.overcommit_memory is 2)", what));
    }
    return {};
}

Result<void> MemoryRoom::check(std::uint64_t bytes, const char* what) const {
    return check(bytes, what, false);
}

Result<void> MemoryRoom::check_swapped(std::uint64_t bytes, const char* what) const {
    return check(bytes, what, true);
}

Result<void> check_address_room(Tid pid, std::uint64_t bytes, const char* what) {
    constexpr std::uint64_t kLeastParts = 8;
    const auto left = try_read_address_space_left(pid);
    if (left && *left / kLeastParts < bytes) {
        return Error(
            fmt::format("its limited address space (RLIMIT_AS) has too little room for {}", what));
    }
    return {};
}

bool may_overcommit(std::string_view overcommit_memory) {
    constexpr std::uint64_t kNever = 2;
    const auto mode = leading_number(overcommit_memory);
    return mode && *mode != kNever;
}

std::uint64_t left_to_promise(const MachineMemory& machine) {
    constexpr std::uint64_t kPartForOthers = 32;
    const std::uint64_t limit = machine.commit_limit.value_or(0);
    const std::uint64_t ours = limit - limit / kPartForOthers;
    return ours - std::min(ours, machine.committed.value_or(ours));
}

} // namespace memleax
