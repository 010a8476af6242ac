// SPDX-License-Identifier: GPL-3.0-or-later
// The checks that come before the first ptrace call, and the reasons of its refusal.
#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <elf.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <poll.h>
#include <sys/stat.h>
#include <unistd.h>

#include "arch.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/code_translator.hpp"
#include "memleax/proc/freezer.hpp"
#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/process_info.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

/// Looks again for a while: as long as another thread executes a program, the first one is a
/// zombie, and then lives again as that other one.
template <class Look> void until_it_lives(Look&& lives) {
    constexpr int kLooks = 50;
    for (int i = 0; !lives() && i < kLooks; ++i) {
        poll(nullptr, 0, 1);
    }
}

/// Empty if there is none; nothing of one that has ended since `info` was read.
std::optional<std::string> tracer_name(const ProcessInfo& info) {
    if (info.tracer.value() == 0) {
        return "";
    }
    const auto tracer = try_read_process_info(info.tracer);
    return tracer ? std::optional(tracer->comm) : std::nullopt;
}

/// That of a memleax that was killed leaves the process in its stead. It takes a moment; 2 s where
/// a thread waits for a child that shares its memory.
void await_guardian(Tid pid, std::optional<ProcessInfo>* info) {
    auto tracer = tracer_name(**info);
    const auto look_again = [&] {
        if (const auto now = try_read_process_info(living_thread(pid))) {
            *info = now;
        }
        tracer = tracer_name(**info);
    };
    if (!tracer) {
        look_again();
    }
    if (tracer != kGuardianName) {
        return;
    }
    log_info("a guardian is about to leave process {}: it is waited for", pid.value());
    constexpr std::int64_t kMostMs = 5000;
    constexpr int kPauseMs = 5;
    for (const Patience patience(kMostMs);
         (!tracer || *tracer == kGuardianName) && !patience.is_over();) {
        poll(nullptr, 0, kPauseMs);
        look_again();
    }
}

/// A filter may forbid the calls that we have a thread make, or kill the process for them, and only
/// the privileged can tell what it does. One thread without is enough.
Result<void> check_seccomp(Tid pid, const std::string& comm) {
    const auto threads = list_threads(pid);
    const bool all_filtered =
        !threads.empty() && std::all_of(threads.begin(), threads.end(), [](Tid tid) {
            const auto thread = try_read_process_info(tid);
            return !thread || thread->has_ended() || thread->seccomp_mode != 0;
        });
    if (!all_filtered || may_suspend_seccomp()) {
        return {};
    }
    const auto self = try_read_process_info(Tid(gettid()));
    const bool has_filter = self && self->seccomp_mode != 0;
    return Error(fmt::format("cannot watch process {} ({}): it has a seccomp filter, which memleax "
                             "may not suspend",
                             pid.value(), comm))
        .with_advice(has_filter
                         ? "run memleax without a filter of its own, which it has from a container "
                           "or a service manager (docker run --security-opt "
                           "seccomp=unconfined)"
                         : "run memleax with CAP_SYS_ADMIN (as root, and not in a user namespace)");
}

} // namespace

Result<void> check_architecture(Tid pid) {
    std::string path;
    int fd = -1;
    until_it_lives([&] {
        path = fmt::format("/proc/{}/exe", living_thread(pid).value());
        fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
        return fd >= 0 || errno != ENOENT;
    });
    if (fd < 0) {
        const int errnum = errno;
        if (errnum == EACCES || errnum == EPERM) {
            return explain_seize_failure(pid, EPERM);
        }
        if (errnum == ENOENT) { // its memory has gone already
            return Error(fmt::format("cannot watch process {}: it has ended already", pid.value()));
        }
        return Error(fmt::format("cannot open the program of process {} ({})", pid.value(), path),
                     errnum);
    }
    Elf64_Ehdr header{};
    const ssize_t got = pread(fd, &header, sizeof header, 0);
    close(fd);
    if (got < static_cast<ssize_t>(sizeof(Elf32_Ehdr)) ||
        std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return Error(
            fmt::format("cannot watch process {}: its program {} is not a readable ELF file",
                        pid.value(), executable_path(pid)));
    }
    // e_machine has the same place in both classes.
    if (header.e_ident[EI_CLASS] != ELFCLASS64 || header.e_machine != arch::kElfMachine) {
        return Error(fmt::format(
            "cannot watch process {}: {} is a {}-bit program for another architecture (ELF machine "
            "{}); this memleax watches 64-bit {} programs",
            pid.value(), executable_path(pid), header.e_ident[EI_CLASS] == ELFCLASS32 ? 32 : 64,
            header.e_machine, arch::kName));
    }
    return {};
}

bool may_suspend_seccomp() {
    // include/linux/proc_ns.h, PROC_USER_INIT_INO
    constexpr ino_t kFirstUserNamespace = 0xEFFFFFFDU;
    const auto self = try_read_process_info(Tid(gettid()));
    struct stat space {};
    return self && self->seccomp_mode == 0 &&
           (self->effective_capabilities & (1ULL << CAP_SYS_ADMIN)) != 0 &&
           (stat("/proc/self/ns/user", &space) != 0 || space.st_ino == kFirstUserNamespace);
}

Result<void> check_no_core_dump(Tid pid) {
    const auto info = try_read_process_info(living_thread(pid));
    if (info && info->dumps_core) {
        return Error(fmt::format("cannot watch process {} ({}): it is dumping its core",
                                 pid.value(), info->comm));
    }
    return {};
}

Result<ProcessInfo> check_watchable(Tid pid) {
    auto info = try_read_process_info(pid);
    if (!info) {
        return Error(fmt::format("no such process: {}", pid.value()));
    }
    if (info->tgid.value() == getpid()) {
        return Error(fmt::format("cannot watch process {}: that is memleax itself", pid.value()));
    }
    if (info->kernel_thread) {
        return Error(fmt::format("cannot watch process {} ({}): it is a kernel thread", pid.value(),
                                 info->comm));
    }
    if (info->tgid != pid) {
        return Error(fmt::format("cannot watch {}: it is a thread of process {}; give that number",
                                 pid.value(), info->tgid.value()));
    }
    // Its first thread may have ended, and others not.
    until_it_lives([&] {
        if (const auto living = try_read_process_info(living_thread(pid))) {
            info = living;
        }
        return !info->has_ended();
    });
    await_guardian(pid, &info);
    if (info->has_ended()) {
        return Error(
            fmt::format("cannot watch process {} ({}): it has ended already and is a zombie",
                        pid.value(), info->comm));
    }
    if (info->tracer.value() != 0) {
        return Error(fmt::format("cannot watch process {} ({}): it is traced by process {} ({})",
                                 pid.value(), info->comm, info->tracer.value(),
                                 tracer_name(*info).value_or("?")));
    }
    if (auto no_dump = check_no_core_dump(pid); !no_dump) {
        return std::move(no_dump).error();
    }
    if (const auto freezer = file_of_freezer(pid)) {
        return Error(fmt::format("cannot watch process {} ({}): its control group is frozen ({})",
                                 pid.value(), info->comm, *freezer))
            .with_advice("thaw it first (docker unpause, systemctl thaw)");
    }
    auto architecture = check_architecture(pid);
    if (!architecture) {
        return std::move(architecture).error();
    }
    if (auto own_code = check_not_translated(pid); !own_code) {
        return std::move(own_code).error();
    }
    auto filter = check_seccomp(pid, info->comm);
    if (!filter) {
        return std::move(filter).error();
    }
    return *info;
}

std::string yama_advice(int ptrace_scope) {
    switch (ptrace_scope) {
    case 1:
        return "Yama allows ptrace of one's own children only (kernel.yama.ptrace_scope = 1): run "
               "memleax as root, or start the program with `memleax -- COMMAND`";
    case 2:
        return "Yama allows ptrace to administrators only (kernel.yama.ptrace_scope = 2): run "
               "memleax "
               "as root or with CAP_SYS_PTRACE";
    case 3:
        return "Yama forbids all ptrace (kernel.yama.ptrace_scope = 3) until the next reboot";
    default:
        return {};
    }
}

Error explain_seize_failure(Tid pid, int errnum) {
    const auto info = try_read_process_info(pid);
    const auto living = try_read_process_info(living_thread(pid)); // its first one may have ended
    if (!info || errnum == ESRCH || !living || living->is_exiting) {
        return Error(fmt::format("no such process: {}", pid.value()));
    }
    Error error(fmt::format("cannot watch process {} ({})", pid.value(), info->comm), errnum);
    if (errnum != EPERM && errnum != EACCES) {
        return error;
    }
    if (info->uid != geteuid() && geteuid() != 0) {
        return std::move(error).with_advice(fmt::format(
            "it belongs to user id {}: run memleax as that user or as root", info->uid));
    }
    const auto scope = try_read_proc_file("/proc/sys/kernel/yama/ptrace_scope");
    const std::string yama = scope ? yama_advice(std::atoi(scope->c_str())) : std::string();
    if (!yama.empty() && (geteuid() != 0 || scope->front() == '3')) {
        return std::move(error).with_advice(yama);
    }
    if (geteuid() == 0) {
        return std::move(error).with_advice(
            "the process, or a container's policy, forbids ptrace: grant CAP_SYS_PTRACE (docker "
            "run "
            "--cap-add SYS_PTRACE) and a seccomp profile that allows ptrace");
    }
    return std::move(error).with_advice(
        "the process has privileges that yours lacks, or is not dumpable (prctl(2), "
        "PR_SET_DUMPABLE): run memleax as root");
}

} // namespace memleax
