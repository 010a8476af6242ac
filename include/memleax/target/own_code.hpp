// SPDX-License-Identifier: GPL-3.0-or-later
/// Pages of ours in the target, as leaving, forked children and the guardian see them: whoever puts
/// code there says where it is, how a thread gets out of it, and takes it away.
#pragma once

#include <vector>

#include "arch.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

class OwnCode {
  public:
    virtual ~OwnCode() = default;
    /// None as long as nothing is mapped.
    [[nodiscard]] virtual std::vector<AddrRange> ranges() const = 0;
    /// Of a stopped thread whose pc is inside: puts its registers to where they belong in the
    /// original code. False if it has to run on until it is out by itself, which is soon.
    [[nodiscard]] virtual bool move_out(arch::Registers* regs) const = 0;
    /// By the stopped thread `worker`. No thread's pc may be inside.
    virtual Result<void> unmap(Tid worker) = 0;
};

/// All that is ours in one target, in the order in which it is to be taken away.
class OwnCodes {
  public:
    /// They must outlive it.
    explicit OwnCodes(std::vector<OwnCode*> parts) : parts_(std::move(parts)) {}

    [[nodiscard]] bool empty() const { return ranges().empty(); }
    [[nodiscard]] bool contains(CodeAddr pc) const;
    [[nodiscard]] std::vector<AddrRange> ranges() const;
    /// True also for a pc that is not inside; `changed` tells whether the registers are others now.
    [[nodiscard]] bool move_out(arch::Registers* regs, bool* changed) const;
    Result<void> unmap(Tid worker);

  private:
    std::vector<OwnCode*> parts_;
};

} // namespace memleax
