// SPDX-License-Identifier: GPL-3.0-or-later
/// The heap as the prompt's `heap` has shown it, to be compared with.
#pragma once

#include <map>
#include <string>

#include "memleax/base/types.hpp"
#include "memleax/track/block_count.hpp"

namespace memleax {

struct Census {
    enum class Key { type, size, stack, holder };
    std::string name;     ///< "heap1"
    unsigned process = 0; ///< its number
    Key key{};
    MonotonicNs time;
    std::map<std::string, BlockCount> rows; ///< by what has been counted
};

} // namespace memleax
