// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace memleax {

/// What an engine that needs no stop for the usual call has seen so far.
struct SeenCalls {
    std::uint64_t all = 0;
    std::uint64_t stopped = 0; ///< those whose threads had to be stopped
    SeenCalls& operator+=(const SeenCalls& other) {
        all += other.all;
        stopped += other.stopped;
        return *this;
    }
};

} // namespace memleax
