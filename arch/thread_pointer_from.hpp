// SPDX-License-Identifier: GPL-3.0-or-later
/// How the agent finds out which thread executes it: freestanding.
#pragma once

#include <cstdint>

namespace memleax::arch {

/// Where it reads the thread pointer.
enum class ThreadPointerFrom : std::uint8_t {
    nowhere, ///< it does not, and every call is the tracer's
    cpu,     ///< by an instruction that asks for it
    memory   ///< where it points to: see kThreadPointerIsInMemory (thread_area.hpp)
};

} // namespace memleax::arch
