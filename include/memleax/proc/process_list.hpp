// SPDX-License-Identifier: GPL-3.0-or-later
/// The processes of our PID namespace, and which of them somebody means.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// By number. Not those that /proc hides from us.
std::vector<Tid> list_processes();

/// What pgrep(1) matches with a name (what is compared is /proc/PID/comm, 15 characters at most).
class ProcessName {
  public:
    /// An extended regular expression (regex(7)), to be found anywhere in the name.
    static Result<ProcessName> parse(const std::string& pattern);

    [[nodiscard]] const std::string& pattern() const { return pattern_; }
    /// Those that run programs and have not ended, but for this one and its children.
    [[nodiscard]] std::vector<Tid> find() const;

  private:
    explicit ProcessName(std::string pattern) : pattern_(std::move(pattern)) {}
    std::string pattern_;
};

struct Descendant {
    Tid pid;
    Tid parent;
};
/// The children of these processes, and theirs: parents come first. Not this process and its own.
std::vector<Descendant> find_descendants(const std::vector<Tid>& ancestors);

} // namespace memleax
