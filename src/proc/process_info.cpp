// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/process_info.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "memleax/proc/living_thread.hpp"
#include "proc_file.hpp"
#include "stat_fields.hpp"

namespace memleax {

namespace {

// include/linux/sched.h: this thread belongs to the kernel. Field 9 of /proc/PID/stat.
constexpr unsigned long kKernelThreadFlag = 0x00200000;
constexpr unsigned long kExitingFlag = 0x00000004;
constexpr unsigned long kIoWorkerFlag = 0x00000010;   // PF_IO_WORKER
constexpr unsigned long kUserWorkerFlag = 0x00004000; // PF_USER_WORKER

/// The text after "Name:" and blanks, up to the end of its line.
std::string_view status_field(std::string_view status, std::string_view name) {
    std::size_t at = 0;
    while (at < status.size()) {
        const std::size_t end = std::min(status.find('\n', at), status.size());
        std::string_view line = status.substr(at, end - at);
        if (line.size() > name.size() && line.starts_with(name) && line[name.size()] == ':') {
            line.remove_prefix(name.size() + 1);
            line.remove_prefix(std::min(line.find_first_not_of(" \t"), line.size()));
            return line;
        }
        at = end + 1;
    }
    return {};
}

template <class T> T number(std::string_view text, int base = 10) {
    T value{};
    std::from_chars(text.data(), text.data() + text.size(), value, base);
    return value;
}

/// Of this thread: /proc/TID/stat adds up what all threads of its process have used, and takes
/// longer the more there are (fs/proc/array.c, do_task_stat).
std::optional<std::string> try_read_stat(Tid tid) {
    return try_read_proc_file(fmt::format("/proc/{0}/task/{0}/stat", tid.value()));
}

bool has_flag(const std::vector<std::string_view>& fields, unsigned long flags) {
    constexpr std::size_t kFlags = 9 - 3; // field 9
    return fields.size() > kFlags && (number<unsigned long>(fields[kFlags]) & flags) != 0;
}

unsigned long worker_flags_here() {
    static const unsigned long result = [] {
        utsname kernel{};
        return uname(&kernel) == 0 ? worker_flags(kernel.release) : 0;
    }();
    return result;
}

bool is_worker(const std::vector<std::string_view>& fields) {
    return has_flag(fields, worker_flags_here());
}

} // namespace

std::optional<ProcessInfo> parse_process_info(std::string_view status, const std::string& stat) {
    const auto fields = stat_fields(stat);
    if (fields.size() < 20) {
        return std::nullopt;
    }
    ProcessInfo info;
    info.comm = status_field(status, "Name");
    info.state = fields[0][0];
    info.tgid = Tid(number<int>(status_field(status, "Tgid")));
    info.parent = Tid(number<int>(status_field(status, "PPid")));
    info.tracer = Tid(number<int>(status_field(status, "TracerPid")));
    info.uid = number<unsigned>(status_field(status, "Uid"));
    const auto flags = number<unsigned long>(fields[6]);
    info.kernel_thread = (flags & kKernelThreadFlag) != 0;
    info.is_exiting = (flags & kExitingFlag) != 0;
    info.dumps_core = number<int>(status_field(status, "CoreDumping")) != 0;
    info.start_time = number<std::uint64_t>(fields[19]);
    constexpr std::size_t kStartBrk = 44; // field 47
    if (fields.size() > kStartBrk) {
        info.heap_begin = RemoteAddr(number<std::uint64_t>(fields[kStartBrk]));
    }
    constexpr std::size_t kExitCode = 49; // field 52
    if (info.has_ended() && fields.size() > kExitCode && number<int>(fields[kExitCode]) != 0) {
        info.wait_status = number<int>(fields[kExitCode]);
    }
    info.pending_signals = number<std::uint64_t>(status_field(status, "SigPnd"), 16);
    info.shared_pending_signals = number<std::uint64_t>(status_field(status, "ShdPnd"), 16);
    info.blocked_signals = number<std::uint64_t>(status_field(status, "SigBlk"), 16);
    info.ignored_signals = number<std::uint64_t>(status_field(status, "SigIgn"), 16);
    info.caught_signals = number<std::uint64_t>(status_field(status, "SigCgt"), 16);
    info.effective_capabilities = number<std::uint64_t>(status_field(status, "CapEff"), 16);
    info.locked_bytes = number<std::uint64_t>(status_field(status, "VmLck")) * 1024;
    info.seccomp_mode = number<int>(status_field(status, "Seccomp"));
    return info;
}

std::optional<ProcessInfo> try_read_process_info(Tid tid) {
    const auto status = try_read_proc_file(fmt::format("/proc/{}/status", tid.value()));
    const auto stat = try_read_stat(tid);
    if (!status || !stat) {
        return std::nullopt;
    }
    return parse_process_info(*status, *stat);
}

std::optional<KernelState> parse_kernel_state(const std::string& stat,
                                              const std::optional<std::string>& call) {
    const auto fields = stat_fields(stat);
    if (fields.empty()) {
        return std::nullopt;
    }
    KernelState result;
    result.state = fields[0][0];
    result.is_kernels_worker = is_worker(fields);
    if (!call || call->starts_with("running")) {
        return result;
    }
    // "NR ARG*6 SP PC", or "-1 SP PC" when blocked outside of a system call (proc_pid_syscall(5)).
    const auto parts = words_of(*call);
    const auto address = [](std::string_view part) {
        return number<std::uint64_t>(part.substr(std::min<std::size_t>(part.size(), 2)), 16); // 0x
    };
    if (parts.size() >= 3) {
        const long nr = number<long>(parts[0]);
        if (nr >= 0) {
            result.system_call = nr;
            for (std::size_t i = 0; i < result.arguments.size() && i + 3 < parts.size(); ++i) {
                result.arguments[i] = address(parts[i + 1]);
            }
        }
        result.sp = RemoteAddr(address(parts[parts.size() - 2]));
        result.pc = CodeAddr(address(parts.back()));
    }
    return result;
}

bool sleeps_since(Tid pid, Tid tid, const KernelState& before) {
    const auto now = try_read_kernel_state(pid, tid);
    return now && now->state == before.state && now->pc == before.pc &&
           now->system_call == before.system_call;
}

// Up to 5.9 PF_IO_WORKER is another bit, of threads outside of all processes, and 0x10 is PF_VCPU:
// a thread of the program's that executes a virtual machine just now. Up to 5.16 0x4000 is
// PF_USED_ASYNC: one that has loaded a module.
unsigned long worker_flags(std::string_view release) {
    const auto digits = [&release] {
        unsigned result = 0;
        const auto [end, error] =
            std::from_chars(release.data(), release.data() + release.size(), result);
        release.remove_prefix(static_cast<std::size_t>(end - release.data()));
        return result;
    };
    const unsigned major = digits();
    release.remove_prefix(release.starts_with('.') ? 1 : 0);
    const std::pair version(major, digits());
    return (version >= std::pair(5U, 10U) ? kIoWorkerFlag : 0) |
           (version >= std::pair(6U, 4U) ? kUserWorkerFlag : 0);
}

bool is_kernels_worker(Tid tid) {
    const auto stat = try_read_stat(tid);
    return stat && is_worker(stat_fields(*stat));
}

// PF_EXITING is set in the first steps of an exit, before the kernel clears the thread's id in its
// memory, and is never taken back (kernel/exit.c, do_exit).
bool is_past_its_end(Tid tid) {
    const auto stat = try_read_stat(tid);
    // Without a file descriptor to spare nothing is known.
    return stat ? has_flag(stat_fields(*stat), kExitingFlag)
                : kill(tid.value(), 0) != 0 && errno == ESRCH;
}

bool has_lost_privileges(Tid pid) {
    const std::string folder = fmt::format("/proc/{}/", living_thread(pid).value());
    struct stat file {};
    const auto status = try_read_proc_file(folder + "status");
    if (!status || stat((folder + "exe").c_str(), &file) != 0) {
        return false;
    }
    // The second of the four numbers is the effective one.
    const auto effective = [&](std::string_view name) {
        const std::string_view ids = status_field(*status, name);
        return number<unsigned>(ids.substr(std::min(ids.find('\t') + 1, ids.size())));
    };
    if (((file.st_mode & S_ISUID) != 0 && effective("Uid") != file.st_uid) ||
        ((file.st_mode & S_ISGID) != 0 && (file.st_mode & S_IXGRP) != 0 &&
         effective("Gid") != file.st_gid)) {
        return true;
    }
    // capabilities(7): struct vfs_cap_data, whose second and third words are what is permitted and
    // inheritable of the first 32.
    std::array<std::uint32_t, 6> file_capabilities{};
    const ssize_t got = getxattr((folder + "exe").c_str(), "security.capability",
                                 file_capabilities.data(), sizeof file_capabilities);
    const auto permitted = number<std::uint64_t>(status_field(*status, "CapPrm"), 16);
    return got >= 8 && (file_capabilities[1] & ~permitted) != 0;
}

std::string program_identity(Tid pid) {
    return try_read_proc_file(fmt::format("/proc/{}/auxv", living_thread(pid).value()))
        .value_or("");
}

std::optional<KernelState> try_read_kernel_state(Tid pid, Tid tid) {
    // A child that shares the memory is no thread of the process, but one of its own.
    const Tid group = is_thread_of(pid, tid) ? pid : tid;
    const std::string folder = fmt::format("/proc/{}/task/{}/", group.value(), tid.value());
    // The call first, then the state: "asleep" read after "in call n" is what the callers rely on.
    const auto call = try_read_proc_file(folder + "syscall");
    const auto stat = try_read_proc_file(folder + "stat");
    return stat ? parse_kernel_state(*stat, call) : std::nullopt;
}

std::vector<Tid> list_threads(Tid pid) {
    std::vector<Tid> tids;
    std::error_code error;
    std::filesystem::directory_iterator folder(fmt::format("/proc/{}/task", pid.value()), error);
    while (!error && folder != std::filesystem::directory_iterator()) {
        tids.emplace_back(number<int>(folder->path().filename().native()));
        folder.increment(error);
    }
    return tids;
}

std::vector<Tid> list_children(Tid pid, Tid tid) {
    std::istringstream words(
        try_read_proc_file(fmt::format("/proc/{}/task/{}/children", pid.value(), tid.value()))
            .value_or(""));
    std::vector<Tid> children;
    for (int child = 0; words >> child;) {
        children.emplace_back(child);
    }
    return children;
}

bool is_thread_of(Tid pid, Tid tid) {
    return access(fmt::format("/proc/{}/task/{}", pid.value(), tid.value()).c_str(), F_OK) == 0;
}

std::string executable_path(Tid pid) {
    std::error_code error;
    std::string path = std::filesystem::read_symlink(
                           fmt::format("/proc/{}/exe", living_thread(pid).value()), error)
                           .string();
    static constexpr std::string_view deleted = " (deleted)";
    if (path.ends_with(deleted)) {
        path.resize(path.size() - deleted.size());
    }
    return path;
}

} // namespace memleax
