// SPDX-License-Identifier: GPL-3.0-or-later
/// Moments to compare with: the prompt's `mark` and `since`.
#pragma once

#include <string>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/track/block_count.hpp"

namespace memleax {

/// What was live at each call stack at one moment; stacks that came later are beyond the end.
struct Mark {
    std::string name;
    MonotonicNs time;
    std::vector<BlockCount> live; ///< by StackId
};

/// In the order in which they were made.
using Marks = std::vector<Mark>;

} // namespace memleax
