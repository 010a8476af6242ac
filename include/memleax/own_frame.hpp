// SPDX-License-Identifier: GPL-3.0-or-later
/// The frame of a backtrace that its reader wants to see first.
#pragma once

#include "memleax/source_frame.hpp"

namespace memleax {

/// The innermost frame of the user's own code: not of an allocator, the C or C++ runtime, or the
/// dynamic linker, and not a function of namespace std that was inlined or instantiated in the
/// user's module. If there is none, the innermost one that is no allocation function; null for an
/// empty backtrace only.
const SourceFrame* own_frame(const Backtrace& frames);

} // namespace memleax
