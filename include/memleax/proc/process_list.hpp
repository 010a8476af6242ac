// SPDX-License-Identifier: GPL-3.0-or-later
/// The processes of our PID namespace, and which of them somebody means.
#pragma once

#include <cstdint>
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
    std::uint64_t start_time; ///< as ProcessInfo's
};
/// The children of these processes, and theirs: parents come first. Not this process and its own.
/// Any of them may have ended by the time that the list is complete, and its number be another's.
std::vector<Descendant> find_descendants(const std::vector<Tid>& ancestors);
/// Is this one of the list still the same process, and a descendant? It is if the same can be said
/// of all between it and the ancestor.
bool is_as_listed(const std::vector<Descendant>& list, const Descendant& one);

} // namespace memleax
