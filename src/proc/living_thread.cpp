// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/living_thread.hpp"

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <fmt/format.h>
#include <unistd.h>

namespace memleax {

namespace {

/// The link goes with the memory, of which it is a part (fs/proc/base.c, proc_exe_link).
bool has_memory(const std::string& folder) {
    char first = 0;
    return readlink((folder + "/exe").c_str(), &first, 1) >= 0 || errno != ENOENT;
}

} // namespace

Tid living_thread(Tid pid) {
    const std::string process = fmt::format("/proc/{}", pid.value());
    if (has_memory(process)) {
        return pid;
    }
    std::error_code error;
    std::filesystem::directory_iterator thread(process + "/task", error);
    while (!error && thread != std::filesystem::directory_iterator()) {
        if (has_memory(thread->path().native())) {
            return Tid(std::atoi(thread->path().filename().c_str()));
        }
        thread.increment(error);
    }
    return pid;
}

} // namespace memleax
