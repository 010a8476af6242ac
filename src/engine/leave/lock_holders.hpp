// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <optional>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

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
    [[nodiscard]] std::vector<AddrRange> find_code() const;

    Target& target_;
    BreakpointTable& breakpoints_;
    std::optional<std::vector<AddrRange>> code_; ///< mappings with a function of the allocator's
};

} // namespace memleax
