// SPDX-License-Identifier: GPL-3.0-or-later
/// Globs (glob(7)) by which the user names frames of call stacks.
#pragma once

#include <string>

#include "memleax/events/source_frame.hpp"

namespace memleax {

/// Does the glob match the frame's module or its function, with or without the parameters?
bool matches_frame(const std::string& glob, const SourceFrame& frame);

} // namespace memleax
