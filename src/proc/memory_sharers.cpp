// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/memory_sharers.hpp"

#include <cerrno>
#include <charconv>
#include <filesystem>

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/living_thread.hpp"

namespace memleax {

namespace {

long compare_memory(Tid living, Tid other) {
    return syscall(SYS_kcmp, living.value(), other.value(), KCMP_VM, 0, 0);
}

} // namespace

bool shares_memory(Tid pid, Tid child) {
    const Tid living = living_thread(pid);
    const long order = compare_memory(living, child);
    // ESRCH: one has ended. EPERM: kcmp is forbidden, or the child has executed a program that we
    // may not look at, other than the target.
    if (order < 0 && errno != ESRCH && compare_memory(living, living) < 0 && errno != ESRCH) {
        log_warning(
            "cannot tell whether child {} shares the target's memory (kcmp is not available)",
            child.value());
    }
    return order == 0;
}

std::vector<Tid> processes_sharing_memory(Tid pid) {
    const Tid living = living_thread(pid);
    std::vector<Tid> result;
    // All of them: a child may have another parent by now. It is a microsecond for each.
    std::error_code error;
    std::filesystem::directory_iterator folder("/proc", error);
    while (!error && folder != std::filesystem::directory_iterator()) {
        const std::string name = folder->path().filename().native();
        int other = 0;
        const auto parsed = std::from_chars(name.data(), name.data() + name.size(), other);
        // Two that have no memory have the same: ours ends, and the other one's first thread, or
        // both of them. Who has some now had it then.
        if (parsed.ptr == name.data() + name.size() && other != pid.value() &&
            compare_memory(living, Tid(other)) == 0 && has_memory(living) &&
            has_memory(Tid(other))) {
            result.emplace_back(other);
        }
        folder.increment(error);
    }
    return result;
}

} // namespace memleax
