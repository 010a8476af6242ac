// SPDX-License-Identifier: GPL-3.0-or-later
/// Is this, and with it the memleax that is tested, built with ASan and UBSan? They take memory of
/// their own, and descriptors when they check a type: what bounds either is not to be told then.
#pragma once

// gcc says it by a macro, clang by a feature.
#if defined(__SANITIZE_ADDRESS__)
#define MEMLEAX_HAS_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define MEMLEAX_HAS_ASAN 1
#endif
#endif

namespace memleax::test {

#ifdef MEMLEAX_HAS_ASAN
inline constexpr bool kIsSanitized = true;
#else
inline constexpr bool kIsSanitized = false;
#endif

} // namespace memleax::test
