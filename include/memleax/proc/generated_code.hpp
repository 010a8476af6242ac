// SPDX-License-Identifier: GPL-3.0-or-later
/// Whose generated code it is: what leads to the file with its names.
#pragma once

#include <memory>

#include "memleax/proc/target_root.hpp"

namespace memleax {

/// See perf_map.hpp.
struct GeneratedCode {
    std::shared_ptr<const TargetRoot> root; ///< null: the process sees what we see
    int own_number = 0; ///< the process's number as it knows it itself; 0: nothing is known
    unsigned owner = 0; ///< its user, in our terms
};

} // namespace memleax
