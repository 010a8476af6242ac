// SPDX-License-Identifier: GPL-3.0-or-later
/// Breakpoints at the places to which calls return.
#pragma once

#include <optional>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/target/breakpoint.hpp"

namespace memleax {

class ReturnWatch {
  public:
    /// Both must outlive it.
    ReturnWatch(const ModuleMap& modules, BreakpointTable& breakpoints)
        : modules_(modules), breakpoints_(breakpoints) {}

    /// Nothing if the return of a call to this address will be seen; else why not. The first
    /// address of each reason is told in a warning. `tid` is stopped.
    std::optional<Unseen> watch(Tid tid, CodeAddr return_address);
    /// Has each return that was asked for been watched?
    [[nodiscard]] bool watches_all() const { return watches_all_; }
    void reset();

  private:
    void warn_of_generated_code(CodeAddr return_address);

    const ModuleMap& modules_;
    BreakpointTable& breakpoints_;
    absl::flat_hash_map<CodeAddr, MonotonicNs> try_again_; ///< where a breakpoint was refused
    bool watches_all_ = true;
    bool warned_of_generated_code_ = false;
    bool warned_of_refusal_ = false;
};

} // namespace memleax
