// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/frame_pattern.hpp"

#include <fnmatch.h>

#include "function_name.hpp"

namespace memleax {

bool matches_frame(const std::string& glob, const SourceFrame& frame) {
    const auto is = [&glob](const std::string& name) {
        return !name.empty() && fnmatch(glob.c_str(), name.c_str(), 0) == 0;
    };
    return is(frame.module) || is(frame.function) ||
           is(frame.function.substr(0, frame.function.find('('))) ||
           is(std::string(bare_name(frame.function)));
}

} // namespace memleax
