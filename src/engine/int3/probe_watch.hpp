// SPDX-License-Identifier: GPL-3.0-or-later
/// Breakpoints at probes, and what their hits mean.
#pragma once

#include <string>
#include <vector>

#include "call_reporter.hpp"
#include "memleax/calls/call_follower.hpp"
#include "memleax/events/event_sink.hpp"
#include "memleax/probes/probe_places.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

class ProbeWatch {
  public:
    /// All must outlive it.
    ProbeWatch(Target& target, BreakpointTable& breakpoints, CallFollower& follower,
               EventSink& events, CallReporter& reporter)
        : target_(target), breakpoints_(breakpoints), follower_(follower), events_(events),
          reporter_(reporter) {}

    /// Watches these, with the help of a stopped thread. One that cannot be is told in a warning.
    void watch(const std::vector<ProbePlace>& places, Tid worker);
    /// The thread with these registers has executed this breakpoint, of a probe.
    void on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint);
    /// The code in this range is gone, and its breakpoints are forgotten.
    void forget(AddrRange range);
    /// The address space is gone.
    void reset() {
        sites_.clear();
        refused_.clear();
    }
    /// Is any that this text of ProbeRequests::all() asks for?
    [[nodiscard]] bool watches(const std::string& request) const;
    /// Was any of them told in a warning?
    [[nodiscard]] bool has_refused(const std::string& request) const;

  private:
    /// The number of the site of this breakpoint, an unused one if it has none yet.
    int site_of(const Breakpoint& breakpoint);
    Result<void> watch_one(const ProbePlace& place, Tid worker);

    Target& target_;
    BreakpointTable& breakpoints_;
    CallFollower& follower_;
    EventSink& events_;
    CallReporter& reporter_;
    std::vector<std::vector<ProbePlace>> sites_; ///< by Breakpoint::probe; empty: unused
    std::vector<std::string> refused_;
    UnwoundStack stack_; ///< reused
};

} // namespace memleax
