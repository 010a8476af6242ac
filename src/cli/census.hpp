// SPDX-License-Identifier: GPL-3.0-or-later
/// The heap as the prompt's `heap` has shown it, to be compared with.
#pragma once

#include <string>

#include "memleax/base/types.hpp"
#include "memleax/report/heap_counts.hpp"

namespace memleax {

struct Census {
    enum class Key { type, size, stack, holder };
    std::string name;     ///< "heap1"
    unsigned process = 0; ///< its number
    Key key{};
    MonotonicNs time;
    HeapCounts rows; ///< by what has been counted
};

} // namespace memleax
