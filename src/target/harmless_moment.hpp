// SPDX-License-Identifier: GPL-3.0-or-later
/// A wait for a moment at which a thread of the target can be stopped without harm, while all of
/// them are in system calls that a stop would cut short.
#pragma once

#include <set>
#include <string>

#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/proc/blocking_descriptors.hpp"
#include "memleax/proc/computing_threads.hpp"
#include "memleax/proc/restless_threads.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_borrower.hpp"

namespace memleax {

class HarmlessMoment {
  public:
    /// So long it is waited for.
    static constexpr std::int64_t kMostNs = 10 * kNsPerSecond;

    HarmlessMoment(Target& target, ThreadBorrower::OnSignal on_signal)
        : target_(target), pid_(target.pid()), on_signal_(on_signal), begun_(monotonic_now()),
          descriptors_(pid_), restless_(pid_, descriptors_) {}
    HarmlessMoment(const HarmlessMoment&) = delete;
    HarmlessMoment& operator=(const HarmlessMoment&) = delete;

    enum class Seen { asleep_in_transfer, asleep_elsewhere, running, otherwise };
    /// Notes what a look has shown. Is it to be taken for being in a transfer? One that runs is,
    /// until it is known to compute, or to sleep elsewhere.
    bool is_in_transfer(Tid tid, Seen seen);
    /// What becomes of the process's own stops until the next look.
    enum class OwnStops { left, served };
    /// The same, after a look that found someone in a transfer. Tells the user, once, if it takes
    /// long. False when it has taken too long, or a signal of ours has come. Other processes' stops
    /// are dealt with meanwhile, and the own if they are to be, where Tracer::serves_meanwhile().
    [[nodiscard]] bool wait_on(OwnStops own = OwnStops::left);
    /// After that.
    [[nodiscard]] Error why_not() const;

  private:
    [[nodiscard]] std::int64_t waited() const;
    [[nodiscard]] bool computes(Tid tid);
    /// Between two looks at /proc that are to see different things.
    void pause(OwnStops own);

    Target& target_;
    Tid pid_;
    ThreadBorrower::OnSignal on_signal_;
    MonotonicNs begun_;
    std::set<Tid> transfers_;          ///< who is in one
    std::set<Tid> slept_in_transfers_; ///< and was not seen asleep elsewhere since
    BlockingDescriptors descriptors_;
    ComputingThreads computing_;
    RestlessThreads restless_;
    std::string whom_; ///< the first that we wait for, and its call; empty if nobody was told
    bool interrupted_ = false;
};

} // namespace memleax
