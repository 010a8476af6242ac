// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

#include "memleax/base/types.hpp"

namespace memleax {

/// Where the kernel knows this thread's list of robust mutexes from (get_robust_list(2)): in the
/// thread's own data, which both glibc and musl have at the stack's end, but for the first
/// thread's. The thread need not be stopped. 0: it has none (musl registers it at the first such
/// mutex), or we may not ask.
[[nodiscard]] std::uint64_t robust_list_head(Tid tid);

} // namespace memleax
