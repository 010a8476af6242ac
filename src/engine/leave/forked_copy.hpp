// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <vector>

#include "arch.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/own_code.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/trap_signal.hpp"

namespace memleax {

/// Where our pages are in a target, and what they begin with: by that a copy of them is known, also
/// when the target has them no more.
class OwnPages {
  public:
    OwnPages() = default;
    /// As they are now.
    OwnPages(RemoteMemory& memory, const OwnCodes& own) { look(memory, own); }
    /// The same; if the target has ended or executes another program, they are as they were at the
    /// last look.
    void look(RemoteMemory& memory, const OwnCodes& own);
    /// Has each page of code been read?
    [[nodiscard]] bool knows_all(const OwnCodes& own) const;

    [[nodiscard]] bool empty() const { return codes_.empty(); }
    /// Those that are in a forked child, stopped at its birth: its own mappings, in the order in
    /// which they are to go.
    [[nodiscard]] std::vector<AddrRange> in_copy(Tid child, RemoteMemory& memory) const;

  private:
    struct Code {
        AddrRange range;
        std::array<std::byte, arch::kSlotBytes> begin{};
        bool operator==(const Code&) const = default;
    };
    std::vector<Code> codes_;
    std::vector<AddrRange> data_;
};

/// A forked child, stopped at its birth, has a copy of what was the target's at that moment: takes
/// out of it what is ours, `pages` among it (none, if a signal frame may refer to one).
void clean_copy(Target& target, BreakpointTable& breakpoints, TrapSignal& trap_signal, Tid child,
                const OwnPages& pages);

} // namespace memleax
