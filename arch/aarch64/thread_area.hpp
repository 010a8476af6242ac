// SPDX-License-Identifier: GPL-3.0-or-later
/// What is where around the thread pointer.
#pragma once

#include <cstdint>

namespace memleax::arch {
inline namespace aarch64 {

/// Static TLS begins behind the 16 bytes at the thread pointer ("ELF Handling For Thread-Local
/// Storage", variant 1), of which the first word is the DTV's address; what the C library keeps for
/// the thread lies before them.
inline constexpr bool kTlsIsAbovePointer = true;
inline constexpr std::uint64_t kDtvAt = 0; ///< from the thread pointer
inline constexpr bool kThreadPointerIsInMemory = false;

} // namespace aarch64
} // namespace memleax::arch
