// SPDX-License-Identifier: GPL-3.0-or-later
/// Which line of a backtrace is the user's to look at first.
#pragma once

#include <cstddef>

#include "memleax/events/source_frame.hpp"
#include "memleax/report/wrappers.hpp"

namespace memleax {

/// Is this frame neither an allocator's nor in a language's runtime or standard library?
bool is_own_code(const SourceFrame& frame);

/// Is this frame an allocator's function, by its name?
bool is_allocator(const SourceFrame& frame);

/// Is this frame in a standard library, wherever it was compiled into? By its name, or, inlined C,
/// by the header that it comes from.
bool is_standard_library(const SourceFrame& frame);

/// Index of the innermost frame of the user's own code that is no wrapper of an allocator, with a
/// name or without one. A nameless function that a wrapper allocates by is part of it. Where there
/// is none: of a wrapper; where there is none either: of the allocator's caller.
std::size_t own_frame(const Backtrace& frames, const Wrappers& wrappers = Wrappers());

} // namespace memleax
