// SPDX-License-Identifier: GPL-3.0-or-later
/// Breakpoints at the places to which calls return.
#pragma once

#include <cstdint>

#include <absl/container/flat_hash_map.h>

#include "memleax/breakpoint.hpp"
#include "memleax/modules.hpp"
#include "memleax/types.hpp"

namespace memleax {

class ReturnWatch {
  public:
    /// Both must outlive it.
    ReturnWatch(const ModuleMap& modules, BreakpointTable& breakpoints)
        : modules_(modules), breakpoints_(breakpoints) {}

    /// Will the return of a call to this address be seen? If not, a warning names it once. `tid`
    /// is stopped.
    bool watch(Tid tid, CodeAddr return_address);
    /// Has each return that was asked for been watched?
    [[nodiscard]] bool watches_all() const { return unwatched_.empty(); }
    void reset() { unwatched_.clear(); }

  private:
    const ModuleMap& modules_;
    BreakpointTable& breakpoints_;
    absl::flat_hash_map<CodeAddr, std::uint64_t> unwatched_; ///< and how often they were seen
};

} // namespace memleax
