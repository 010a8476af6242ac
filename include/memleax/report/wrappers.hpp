// SPDX-License-Identifier: GPL-3.0-or-later
/// Functions that allocate for whoever calls them, as xmalloc does: a call stack is not named by
/// one of them, but by its caller.
#pragma once

#include <set>
#include <span>
#include <string>
#include <vector>

#include "memleax/events/source_frame.hpp"

namespace memleax {

class Wrappers {
  public:
    /// Those that have the names of wrappers (src/report/known_wrappers.cpp), and those that match
    /// one of the globs (frame_pattern.hpp).
    explicit Wrappers(std::vector<std::string> globs = {}) : globs_(std::move(globs)) {}

    /// And those that the program's call stacks show to be wrappers: the innermost function of the
    /// program in most of them, which allocates in few places for many callers. What was found
    /// before is forgotten. Few call stacks show nothing: what leaks might be skipped.
    void learn(std::span<const Backtrace> stacks);

    [[nodiscard]] bool contains(const SourceFrame& frame) const;

    /// By its name, or by a glob; not by what was learned.
    [[nodiscard]] bool names(const SourceFrame& frame) const;

  private:
    std::vector<std::string> globs_;
    std::set<std::string> learned_; ///< as by key_of() in wrappers.cpp
};

} // namespace memleax
