// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/living_thread.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

namespace memleax {

// The link goes with the memory, of which it is a part (fs/proc/base.c, proc_exe_link).
bool has_memory(Tid tid) {
    char first = 0;
    const std::string link = fmt::format("/proc/{}/exe", tid.value());
    return readlink(link.c_str(), &first, 1) >= 0 || errno != ENOENT;
}

Tid living_thread(Tid pid) {
    if (has_memory(pid)) {
        return pid;
    }
    std::error_code error;
    std::filesystem::directory_iterator thread(fmt::format("/proc/{}/task", pid.value()), error);
    while (!error && thread != std::filesystem::directory_iterator()) {
        const Tid tid(std::atoi(thread->path().filename().c_str()));
        if (has_memory(tid)) {
            return tid;
        }
        thread.increment(error);
    }
    return pid;
}

} // namespace memleax
