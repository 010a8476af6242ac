// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/spare_descriptors.hpp"

#include <cerrno>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

namespace memleax {

namespace {

/// A directory that is being listed, a file that is being read, a child's memory, a pager's pipes.
constexpr rlim_t kSpare = 32;
/// Signals, timers, the log, the report, the target's memory, and the modules of a small program.
constexpr rlim_t kNeeded = 32;

rlim_t descriptor_limit() {
    rlimit limit{};
    return getrlimit(RLIMIT_NOFILE, &limit) == 0 ? limit.rlim_cur : RLIM_INFINITY;
}

bool leaves_less_than(rlim_t free, int fd) {
    const rlim_t limit = descriptor_limit();
    return limit < free || static_cast<rlim_t>(fd) >= limit - free;
}

} // namespace

bool is_spare_descriptor(int fd) {
    return leaves_less_than(kSpare, fd);
}

Result<void> check_descriptors() {
    const int lowest = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (lowest >= 0) {
        close(lowest);
    }
    if (lowest < 0 ? errno == EMFILE : leaves_less_than(kSpare + kNeeded, lowest)) {
        return Error(fmt::format("memleax may open {} files, and needs at least {} besides those "
                                 "that it was started with",
                                 descriptor_limit(), kSpare + kNeeded),
                     EMFILE)
            .with_advice("raise the limit (ulimit -n)");
    }
    return {};
}

} // namespace memleax
