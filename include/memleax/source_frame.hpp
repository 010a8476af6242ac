// SPDX-License-Identifier: GPL-3.0-or-later
/// What a person reads in a backtrace. Apart from the symbolizer, so that reports and their tests
/// need no libdw.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memleax/types.hpp"

namespace memleax {

/// One line of a backtrace. A machine frame with inlined calls gives several, innermost first.
struct SourceFrame {
    CodeAddr pc;          ///< as in the stack (a return address for outer frames)
    std::string module;   ///< last component of the module's path; "" if the pc is in none
    std::string function; ///< demangled; "" if unknown
    std::optional<std::uint64_t> offset; ///< pc - start of the function; absent for inlined frames
    std::string file;                    ///< as the compiler recorded it; "" if unknown
    unsigned line = 0;                   ///< 0 if unknown
    bool inlined = false;                ///< this function was inlined into the next frame
};

} // namespace memleax
