// SPDX-License-Identifier: GPL-3.0-or-later
/// Before a jump can take the place of a function's first instructions: does any thread stand
/// behind the first of them, or will a signal's handler return to there? From the moment when a
/// breakpoint stands on the first one nobody gets there any more, so each thread has to be looked
/// at once.
#pragma once

#include <set>
#include <vector>

#include "leave/page_references.hpp"
#include "memleax/proc/computing_threads.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/target.hpp"
#include "memleax/unwind/unwinder.hpp"
#include "thread_rounds.hpp"

namespace memleax {

class EntryProof {
  public:
    /// They must outlive this.
    EntryProof(Target& target, Unwinder& unwinder) : target_(target), unwinder_(unwinder) {}

    /// Breakpoints have been put at these; all threads are to be looked at (again).
    void begin(const std::vector<AddrRange>& behind_entries);
    /// Looks at those that can be looked at now: that sleep in a system call. One that computes is
    /// interrupted, and is to be looked at when it has stopped. Takes a few milliseconds at most,
    /// as stops wait meanwhile: of thousands of threads, the next time at those that were left.
    void look();
    /// At a stopped thread.
    void look_at(Tid tid);
    void on_thread_gone(Tid tid) { unproven_.erase(tid); }
    /// Has each been found elsewhere?
    [[nodiscard]] bool is_done() const { return unproven_.empty(); }
    /// The address space is gone.
    void forget();

  private:
    [[nodiscard]] bool is_elsewhere(Tid tid, CodeAddr pc, ReferenceSearch& search) const;
    [[nodiscard]] bool is_proven(Tid tid, ReferenceSearch& search);

    Target& target_;
    Unwinder& unwinder_;
    std::vector<AddrRange> places_;
    ThreadRounds unproven_;
    std::set<Tid> interrupted_;
    ComputingThreads computing_;
};

} // namespace memleax
