// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>

namespace memleax {

/// Which walk of a stack goes into the account: our own Unwinder's, or LibunwindWalker's.
enum class UnwinderChoice : std::uint8_t { own, libunwind };

/// As --unwinder and reports have it.
constexpr const char* name_of(UnwinderChoice choice) {
    return choice == UnwinderChoice::own ? "memleax" : "libunwind";
}

} // namespace memleax
