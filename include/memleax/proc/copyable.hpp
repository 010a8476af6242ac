// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// close_range(2), Linux 5.9, which older headers do not know. A copy needs it.
inline constexpr long kCloseRange = 436;

/// What speaks against making a copy of a process by clone(2), and ending that again: no copy can
/// be made, or others would notice it. Before anybody is stopped. `bytes`: what the process has in
/// memory, all of which it may write to, and so have twice, while there is a copy.
Result<void> check_copyable(Tid pid, std::uint64_t bytes);

} // namespace memleax
