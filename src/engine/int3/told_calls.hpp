// SPDX-License-Identifier: GPL-3.0-or-later
/// Calls that were told and come again.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "arch.hpp"
#include "memleax/base/types.hpp"
#include "memleax/unwind/unwinder.hpp"

namespace memleax {

/// Hits whose thread went back to the breakpoint, as a signal was delivered before it had executed
/// the displaced instruction: its next hit there, behind the signal's handler, is not a new call. A
/// handler's own call may be interrupted likewise, so a thread may have several.
class ToldCalls {
  public:
    [[nodiscard]] bool has_any(Tid tid) const { return calls_.contains(tid); }
    /// Does the thread stand before such a call? `place`: Breakpoint::place(); the thread has the
    /// registers that a handler's return gave back.
    [[nodiscard]] bool has(Tid tid, CodeAddr place, const arch::Registers& regs) const;
    void add(Tid tid, const arch::Registers& regs);
    /// has(); if so, the call is forgotten, and those of the handlers, which have been left.
    bool take(Tid tid, CodeAddr place, const arch::Registers& regs);
    /// Forgets the calls that are not on the thread's stack, as walked from `regs`, any more: their
    /// handlers have left them by siglongjmp.
    void forget_left(Tid tid, const arch::Registers& regs, const UnwoundStack& walked);
    void forget(Tid tid) { calls_.erase(tid); }
    /// Those of a breakpoint.
    void forget_at(CodeAddr place);
    void clear() { calls_.clear(); }

  private:
    /// Of those that nobody can tell to be left the oldest are forgotten.
    static constexpr std::size_t kMost = 16;

    struct Call {
        CodeAddr place;
        RemoteAddr sp;
        /// They tell another call from the same place, if siglongjmp has left this one.
        std::array<std::uint64_t, 4> arguments;
        bool operator==(const Call&) const = default;
    };
    static Call call_at(CodeAddr place, const arch::Registers& regs);

    absl::flat_hash_map<Tid, std::vector<Call>> calls_; ///< the innermost one last; none is empty
};

} // namespace memleax
