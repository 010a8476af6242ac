// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/copyable.hpp"

#include <cerrno>
#include <string>

#include <fmt/format.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/proc/memory_look.hpp"
#include "memleax/proc/process_info.hpp"
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
            return Error("it has a seccomp filter, which its children have, too", EPERM);
        }
        if (!forks_into_own_namespace(pid, tid)) {
            return Error("its children are in another PID namespace", ENOTSUP);
        }
        if (waits_for_all_kinds(pid, tid)) {
            return Error("it waits for children of all kinds (__WALL)", ENOTSUP);
        }
    }
    return {};
}

Result<void> check_memory(Tid pid, std::uint64_t bytes) {
    constexpr std::uint64_t kNever = 2;
    const auto overcommit = try_read_proc_file("/proc/sys/vm/overcommit_memory");
    if (!overcommit || leading_number(*overcommit) == kNever) {
        return Error("the machine promises no more memory than it has (vm.overcommit_memory)",
                     ENOMEM);
    }
    const GroupMemory group = read_group_memory(pid);
    const std::uint64_t used = group.used().value_or(0);
    if (group.limit && (used > *group.limit || *group.limit - used < bytes)) {
        return Error("its control group has no room for its memory a second time", ENOMEM);
    }
    return {};
}

} // namespace

Result<void> check_copyable(Tid pid, std::uint64_t bytes) {
    if (syscall(kCloseRange, ~0U, ~0U, 0) != 0) { // of no descriptor
        return Error("the kernel has no close_range(2) (Linux 5.9)", ENOSYS);
    }
    if (auto threads = check_threads(pid); !threads) {
        return threads;
    }
    return check_memory(pid, bytes);
}

} // namespace memleax
