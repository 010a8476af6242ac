// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/pressure_trigger.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "group_memory.hpp"

namespace memleax {

std::string pressure_file_of(Tid pid) {
    const auto groups = control_groups_of(pid, "");
    if (!groups.empty() && !is_root_group(groups.front())) {
        std::string path = groups.front().folder() + "/memory.pressure";
        if (access(path.c_str(), F_OK) == 0) {
            return path;
        }
    }
    return "/proc/pressure/memory";
}

Result<PressureTrigger> PressureTrigger::open(const std::string& path,
                                              const StallThreshold& threshold) {
    const std::string what = fmt::format("cannot wait for pressure by {}", path);
    PressureTrigger trigger(::open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC));
    if (trigger.fd_ < 0) {
        Error error(what, errno);
        return errno == EACCES || errno == EPERM
                   ? std::move(error).with_advice("the group is another user's: try as root")
                   : std::move(error).with_advice(
                         "the kernel needs CONFIG_PSI, and psi=1 where it is off by default");
    }
    const std::string text = fmt::format("{} {} {}", threshold.full ? "full" : "some",
                                         threshold.stall_us, threshold.window_us);
    // The terminating zero belongs to it.
    if (write(trigger.fd_, text.c_str(), text.size() + 1) < 0) {
        Error error(what, errno);
        return errno == EPERM || errno == EINVAL
                   ? std::move(error).with_advice(
                         "a window of a multiple of 2 s needs no privileges (Linux 6.5)")
                   : error;
    }
    return trigger;
}

PressureTrigger::~PressureTrigger() {
    if (fd_ >= 0) {
        close(fd_);
    }
}

} // namespace memleax
