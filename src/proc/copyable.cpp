// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/copyable.hpp"

#include <algorithm>
#include <string>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "control_group.hpp"
#include "copy_hazards.hpp"
#include "memleax/proc/memory_room.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/process_memory.hpp"
#include "named_numbers.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

std::string read_link(const std::string& path) {
    std::string name(64, '\0');
    const ssize_t length = readlink(path.c_str(), name.data(), name.size());
    name.resize(length > 0 ? static_cast<std::size_t>(length) : 0);
    return name;
}

/// Is what this thread forks in its own PID namespace (unshare(2), CLONE_NEWPID)? Since Linux 4.12
/// the kernel tells.
bool forks_into_own_namespace(Tid pid, Tid tid) {
    const std::string folder = fmt::format("/proc/{}/task/{}/ns/", pid.value(), tid.value());
    const std::string own = read_link(folder + "pid");
    return !own.empty() && own == read_link(folder + "pid_for_children");
}

/// Does it wait for children of all kinds, and would see the copy? In such a call it is asleep.
bool waits_for_all_kinds(Tid pid, Tid tid) {
    constexpr std::uint64_t kAnyKind = 0xc0000000; // __WALL, __WCLONE
    const auto kernel = try_read_kernel_state(pid, tid);
    if (!kernel || !kernel->system_call) {
        return false;
    }
    const bool is_wait4 = *kernel->system_call == SYS_wait4;
    const bool is_waitid = *kernel->system_call == SYS_waitid;
    return (is_wait4 && (kernel->arguments[2] & kAnyKind) != 0) ||
           (is_waitid && (kernel->arguments[3] & kAnyKind) != 0);
}

Result<void> check_threads(Tid pid) {
    for (const Tid tid : list_threads(pid)) {
        const auto info = try_read_process_info(tid);
        if (!info || info->has_ended()) {
            continue;
        }
        if (info->seccomp_mode != 0) {
            return Error("it has a seccomp filter, which its children have, too");
        }
        if (!forks_into_own_namespace(pid, tid)) {
            return Error("its children are in another PID namespace");
        }
        if (waits_for_all_kinds(pid, tid)) {
            return Error("it waits for children of all kinds (__WALL)");
        }
    }
    return {};
}

/// While there is a copy, the process may make one process or thread less than else.
Result<void> check_processes(Tid pid) {
    constexpr std::uint64_t kLeft = 16;
    for (const char* controller : {"pids", ""}) { // version 1, version 2
        for (const ControlGroup& group : control_groups_of(pid, controller)) {
            for (const std::string& folder : folders_up_from(group)) {
                const auto most = try_read_number(folder + "/pids.max");
                const auto now = try_read_number(folder + "/pids.current");
                if (most && *most < now.value_or(*most) + kLeft) {
                    return Error("its control group has no room for further processes");
                }
            }
        }
    }
    return {};
}

Result<void> check_memory(Tid pid) {
    const auto overcommit = try_read_proc_file("/proc/sys/vm/overcommit_memory");
    if (!may_overcommit(overcommit.value_or(""))) {
        return Error("the machine promises no more memory than it has (vm.overcommit_memory)");
    }
    auto written = try_read_written_bytes(pid);
    if (!written) {
        written = try_read_resident_bytes(pid);
    }
    const std::uint64_t bytes = written.value_or(0); // else it has ended
    return MemoryRoom(pid).check(bytes + room_to_be_left(bytes), kMemoryAgain);
}

} // namespace

std::uint64_t room_to_be_left(std::uint64_t written_bytes) {
    constexpr std::uint64_t kLeast = 16U << 20;
    constexpr std::uint64_t kPart = 4;
    return std::max(kLeast, written_bytes / kPart);
}

Result<void> check_copyable(Tid pid) {
    if (syscall(kCloseRange, ~0U, ~0U, 0) != 0) { // of no descriptor
        return Error("the kernel has no close_range(2) (Linux 5.9)");
    }
    const auto mappings = read_maps(pid);
    if (!mappings) {
        return mappings.error();
    }
    if (auto may = check_mappings_copyable(*mappings); !may) {
        return may;
    }
    for (const auto check : {check_threads, check_descriptors_copyable, check_huge_pages_copyable,
                             check_processes, check_memory}) {
        if (auto may = check(pid); !may) {
            return may;
        }
    }
    return {};
}

} // namespace memleax
