// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstdint>

namespace memleax {

/// A system call that a stopped thread is to make for us.
struct RemoteCall {
    long number = 0; ///< SYS_*
    std::array<std::uint64_t, 6> arguments{};
};

} // namespace memleax
