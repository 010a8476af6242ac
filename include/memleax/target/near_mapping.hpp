// SPDX-License-Identifier: GPL-3.0-or-later
/// Memory for code of ours, within a branch's reach of the code that it serves.
#pragma once

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

/// Bytes of each such mapping; also the largest page size that Linux has (arm64).
inline constexpr std::uint64_t kRegionBytes = 64ULL * 1024;

/// Maps kRegionBytes, readable and executable, by the stopped thread `worker`. Once it is written
/// down what they are for, the caller clears RecoveryRecord::BorrowedThread::mapped.
Result<AddrRange> map_code_near(Target& target, CodeAddr near, Tid worker);

/// Is all of the mapping (arch::kSlotReach) within reach of that code?
[[nodiscard]] bool within_reach(AddrRange region, CodeAddr near);

/// The error of a mapping that could not be made there.
[[nodiscard]] Error no_room(Tid pid, CodeAddr near, int errnum);

} // namespace memleax
