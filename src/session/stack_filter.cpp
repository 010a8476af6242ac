// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/stack_filter.hpp"

#include <algorithm>

#include <fnmatch.h>

namespace memleax {

namespace {

bool matches(const std::string& pattern, const SourceFrame& frame) {
    const auto is = [&pattern](const std::string& name) {
        return !name.empty() && fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
    };
    return is(frame.module) || is(frame.function) ||
           is(frame.function.substr(0, frame.function.find('(')));
}

bool any_matches(const std::vector<std::string>& patterns, const Backtrace& frames) {
    return std::any_of(frames.begin(), frames.end(), [&patterns](const SourceFrame& frame) {
        return std::any_of(patterns.begin(), patterns.end(),
                           [&frame](const std::string& p) { return matches(p, frame); });
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
