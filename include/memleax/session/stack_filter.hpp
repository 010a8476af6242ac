// SPDX-License-Identifier: GPL-3.0-or-later
/// Which call stacks the user wants to see: the prompt's `ignore` and `only`.
#pragma once

#include <string>
#include <vector>

#include "memleax/events/source_frame.hpp"

namespace memleax {

/// Patterns are globs (glob(7)), matched against each frame's module and its function, with and
/// without the parameters. Nothing is lost by a filter: it hides.
class StackFilter {
  public:
    /// Call stacks through a frame that matches are hidden.
    void ignore(std::string pattern) { ignored_.push_back(std::move(pattern)); }
    /// Call stacks through no frame that matches one of these are hidden.
    void only(std::string pattern) { only_.push_back(std::move(pattern)); }
    void clear_ignored() { ignored_.clear(); }
    void clear_only() { only_.clear(); }

    [[nodiscard]] bool empty() const { return ignored_.empty() && only_.empty(); }
    [[nodiscard]] bool shows(const Backtrace& frames) const;
    [[nodiscard]] const std::vector<std::string>& ignored() const { return ignored_; }
    [[nodiscard]] const std::vector<std::string>& only() const { return only_; }

  private:
    std::vector<std::string> ignored_;
    std::vector<std::string> only_;
};

} // namespace memleax
