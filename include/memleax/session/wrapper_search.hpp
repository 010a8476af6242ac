// SPDX-License-Identifier: GPL-3.0-or-later
/// Each process's functions that allocate for their callers.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "memleax/report/wrappers.hpp"
#include "memleax/session/process_account.hpp"

namespace memleax {

/// Looks at some of a process's call stacks, evenly chosen; again when there are more of them by an
/// eighth. For the main thread.
class WrapperSearch {
  public:
    explicit WrapperSearch(std::vector<std::string> globs) : globs_(std::move(globs)) {}

    /// The reference is good until the next call.
    const Wrappers& find(ProcessAccount& process);

  private:
    struct Found {
        Wrappers wrappers;
        std::size_t stacks = 0; ///< there were that many
    };
    const std::vector<std::string> globs_;
    std::map<const ProcessAccount*, Found> found_;
};

} // namespace memleax
