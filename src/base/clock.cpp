// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/clock.hpp"

#include <ctime>

namespace memleax {

MonotonicNs monotonic_now() {
    timespec ts{};
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return MonotonicNs(ts.tv_sec * kNsPerSecond + ts.tv_nsec);
}

} // namespace memleax
