// SPDX-License-Identifier: GPL-3.0-or-later
/// Which thread to stop when it does not matter which: the one that minds least.
#pragma once

#include <set>
#include <vector>

#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

class HarmlessMoment;
class Target;
struct BorrowCandidate;

/// For one process. Who is borrowed stands still; its stop is told by next_event() afterwards.
class ThreadBorrower {
  public:
    explicit ThreadBorrower(Target& target) : target_(target) {}

    enum class OnSignal { give_up, wait_on };
    /// Stops one thread. If each would have a transfer cut short (system_call_kind.hpp), waits for
    /// a better moment, some seconds, or until a signal of ours comes; then the Error is EBUSY.
    /// EAGAIN: the process lives, but none can be stopped now. They are asked to stop, and
    /// next_event() tells when one does.
    Result<Tid> borrow_thread(OnSignal on_signal = OnSignal::give_up);
    /// Stops a child process that shares the memory: as good for a call about that, and not for one
    /// about signals. EAGAIN as above.
    Result<Tid> borrow_child();
    /// Would borrow_thread() find one at once?
    [[nodiscard]] bool has_thread_to_borrow() const;
    /// Is it stopped, or would a stop go unnoticed, as far as can be seen?
    [[nodiscard]] bool minds_no_stop(Tid tid) const;
    /// Is it asleep in a transfer that a stop would cut short?
    [[nodiscard]] bool is_in_transfer(Tid tid) const;
    /// Waits until none of these is in one, for as long as borrow_thread() would, whatever signals
    /// of ours come. Those that still are.
    std::set<Tid> wait_out_transfers(const std::set<Tid>& threads);
    /// Waits as long for a moment at which no thread is in one: all may be stopped then. Where
    /// stops are served meanwhile (Tracer::ServesMeanwhile), those of this process are, too, but
    /// for the last moments, in which whoever stops stays so, as by stop_and_defer(): since when.
    /// EBUSY: there was no such moment. Elsewhere they stay so at once, and after a tenth of a
    /// second that is EAGAIN.
    Result<MonotonicNs> await_harmless_stop_of_all();

  private:
    [[nodiscard]] std::vector<BorrowCandidate> candidates(HarmlessMoment* moment) const;
    Result<Tid> try_to_borrow(const std::vector<BorrowCandidate>& candidates);
    /// Why: it has ended, or all its threads wait in the kernel (EAGAIN).
    [[nodiscard]] Error cannot_be_stopped() const;
    /// Threads that have stopped by themselves stay so: their events come first from next_event().
    void defer_what_has_come();

    Target& target_;
};

} // namespace memleax
