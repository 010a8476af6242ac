// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/stack_filter.hpp"

#include <algorithm>

#include "memleax/report/frame_pattern.hpp"

namespace memleax {

namespace {

bool any_matches(const std::vector<std::string>& patterns, const Backtrace& frames) {
    return std::any_of(frames.begin(), frames.end(), [&patterns](const SourceFrame& frame) {
        return std::any_of(patterns.begin(), patterns.end(),
                           [&frame](const std::string& p) { return matches_frame(p, frame); });
    });
}

} // namespace

bool StackFilter::shows(const Backtrace& frames) const {
    if (!ignored_.empty() && any_matches(ignored_, frames)) {
        return false;
    }
    return only_.empty() || any_matches(only_, frames);
}

} // namespace memleax
