// SPDX-License-Identifier: GPL-3.0-or-later
/// Pages of ours in the target, as leaving, forked children and the guardian see them: whoever puts
/// code there says where it is, how a thread gets out of it, and takes it away.
#pragma once

#include <set>
#include <utility>
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
    /// Is this in one of them? Asked at each signal, so it allocates nothing.
    [[nodiscard]] virtual bool contains(CodeAddr pc) const = 0;
    /// Of a stopped thread whose pc is inside: puts its registers to where they belong in the
    /// original code. False if it has to run on until it is out by itself, which is soon.
    [[nodiscard]] virtual bool move_out(arch::Registers* regs) const = 0;
    /// Will this thread come back into them, which is in a call that was made there? `sp` is where
    /// its stack ends now.
    [[nodiscard]] virtual bool will_be_back(Tid /*tid*/, RemoteAddr /*sp*/) const { return false; }
    /// It seems to have left that call, but the frame is still there: who can walk its stack knows.
    [[nodiscard]] virtual bool may_be_back(Tid /*tid*/, RemoteAddr /*sp*/) const { return false; }
    /// Whose calls made there have not ended, as far as can be seen while they run: who has left
    /// one by siglongjmp is among them.
    [[nodiscard]] virtual std::set<Tid> inside() const { return {}; }
    /// Memory that is no code, and goes with it. A forked child finds zeros there.
    [[nodiscard]] virtual std::vector<AddrRange> data_ranges() const { return {}; }
    /// By the stopped thread `worker`. No thread's pc may be inside, nor come back.
    virtual Result<void> unmap(Tid worker) = 0;
};

/// What it took to get a thread out of our pages.
enum class MoveOut {
    outside,    ///< nothing: it was in none
    moved,      ///< other registers, which are to be set
    must_run_on ///< it cannot be moved, and gets out by itself, soon
};

/// All that is ours in one target, in the order in which it is to be taken away.
class OwnCodes {
  public:
    /// They must outlive it.
    explicit OwnCodes(std::vector<OwnCode*> parts) : parts_(std::move(parts)) {}

    /// Is taken away before all others: it needs them. Must outlive it.
    void add_first(OwnCode* part) { parts_.insert(parts_.begin(), part); }
    void remove(OwnCode* part) { std::erase(parts_, part); }
    [[nodiscard]] bool empty() const { return ranges().empty(); }
    [[nodiscard]] bool contains(CodeAddr pc) const;
    [[nodiscard]] std::vector<AddrRange> ranges() const;
    [[nodiscard]] std::vector<AddrRange> data_ranges() const;
    /// The parts of this one, by address, that are in none of ranges().
    [[nodiscard]] std::vector<AddrRange> outside(AddrRange range) const;
    [[nodiscard]] bool will_be_back(Tid tid, RemoteAddr sp) const;
    [[nodiscard]] bool may_be_back(Tid tid, RemoteAddr sp) const;
    [[nodiscard]] std::set<Tid> inside() const;
    /// Of a stopped thread, wherever its pc is.
    [[nodiscard]] MoveOut move_out(arch::Registers* regs) const;
    Result<void> unmap(Tid worker);

  private:
    std::vector<OwnCode*> parts_;
};

} // namespace memleax
