// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/thrown_text.hpp"

#include <new>
#include <system_error>

#include <fmt/format.h>

namespace memleax {

std::string thrown_text(const std::exception& thrown) {
    if (dynamic_cast<const std::bad_alloc*>(&thrown) != nullptr) {
        return "not enough memory for memleax itself; look at its limits (ulimit -v, ulimit -d)";
    }
    // Of std::thread. pthread_create(3) fails with EAGAIN for want of memory for a stack, too.
    const auto* failure = dynamic_cast<const std::system_error*>(&thrown);
    if (failure != nullptr && failure->code() == std::errc::resource_unavailable_try_again) {
        return fmt::format("cannot start a thread: {}; look at the limits of processes (ulimit "
                           "-u, the control group's pids.max) and of memory (ulimit -v)",
                           failure->code().message());
    }
    return fmt::format("internal error: {}", thrown.what());
}

} // namespace memleax
