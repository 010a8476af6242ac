// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

/// Could an allocator wait in this system call: for a lock, or for memory?
bool may_be_allocators(long system_call);

/// Threads for which others wait in the allocator: they are in it as well, but not by way of our
/// code (their call began before, or trapped), and stopped by job control, with a lock of it
/// perhaps.
class LockHolders {
  public:
    /// Both must outlive it.
    LockHolders(Target& target, BreakpointTable& breakpoints)
        : target_(target), breakpoints_(breakpoints) {}

    /// Of a stopped thread. Whoever stands in code next to a function of the allocator's, or waits
    /// as that may, could be one; nobody tells who has a lock. Mappings are read the first time.
    [[nodiscard]] bool may_be(Tid tid);

  private:
    void find_code();

    Target& target_;
    BreakpointTable& breakpoints_;
    std::vector<AddrRange> code_; ///< mappings with a function of the allocator's
    bool is_known_ = false;
};

} // namespace memleax
