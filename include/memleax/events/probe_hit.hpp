// SPDX-License-Identifier: GPL-3.0-or-later
/// A probe that a thread has come by: --probe.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "memleax/base/types.hpp"

namespace memleax {

struct ProbeHit {
    std::string_view name; ///< "libc:memory_heap_new", or a function's. Not kept.
    StackId stack = kNoStack;
    /// Nothing: it has none, or its value cannot be told.
    std::optional<std::int64_t> first_argument;
};

} // namespace memleax
