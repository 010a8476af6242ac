// SPDX-License-Identifier: GPL-3.0-or-later
/// What is where around the thread pointer.
#pragma once

#include <cstdint>

namespace memleax::arch {
inline namespace x86_64 {

/// Static TLS ends at the thread pointer ("ELF Handling For Thread-Local Storage", variant 2); what
/// the C library keeps for the thread begins there, with the DTV's address as its second word.
inline constexpr bool kTlsIsAbovePointer = false;
inline constexpr std::uint64_t kDtvAt = 8; ///< from the thread pointer
/// The word that the thread pointer points to has its value (ibid., for "%fs:0"). So it is in
/// programs with thread-local storage; the pointer of others may lead nowhere.
inline constexpr bool kThreadPointerIsInMemory = true;

} // namespace x86_64
} // namespace memleax::arch
