// SPDX-License-Identifier: GPL-3.0-or-later
/// The seam between the layers that know about processes and those that can be tested with a list
/// of events: what an engine tells, and what it may ask.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string_view>

#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/events/mapping_event.hpp"
#include "memleax/events/page_fault.hpp"
#include "memleax/events/probe_hit.hpp"
#include "memleax/events/resident_memory.hpp"
#include "memleax/events/seen_calls.hpp"

namespace memleax {

/// The watermark of an engine that tells each event as it happens.
inline constexpr MonotonicNs kAllDelivered{std::numeric_limits<std::int64_t>::max()};

/// Where an engine sends what it saw. Called from the engine's thread only.
class EventSink {
  public:
    virtual ~EventSink() = default;
    /// In the order in which they happened to each address. A batch is taken as a whole: whoever
    /// looks at the account from another thread sees all of it, or nothing.
    ///
    /// Returns how many were taken: all, or those before the first free with `if_live` of a block
    /// that is not live. What to tell instead of that one is for the caller to find out.
    virtual std::size_t on_events(std::span<const AllocationEvent> events) = 0;
    void on_event(const AllocationEvent& event) { (void)on_events({&event, 1}); }
    /// All that has happened up to this time has been told, and an event after it may still come:
    /// the account says nothing of later times (what is live, what has expired). It never goes
    /// back. At first it is kAllDelivered.
    virtual void on_watermark(MonotonicNs time) = 0;
    /// How many calls that took, all in all. An engine that stops at each tells none.
    virtual void on_seen_calls(const SeenCalls& /*calls*/) {}
    virtual void on_mapping(const MappingEvent& /*event*/) {}
    /// All that is mapped now, before the first event: it is nobody's of whom we know.
    virtual void on_mapped_before(std::span<const AddrRange> /*ranges*/) {}
    /// This has been mapped for our own use: it is nobody's, either.
    virtual void on_own_mapping(AddrRange /*range*/) {}
    virtual void on_page_faults(std::span<const PageFault> /*faults*/) {}
    virtual void on_fault_counts(const FaultCounts& /*since_before*/) {}
    /// All faults up to then have been told.
    virtual void on_faults_told(MonotonicNs /*until*/) {}
    /// What the process has in memory at this time, when the watching begins, and after an exec:
    /// what comes in from then on is to be told from it. Absent: not known.
    virtual void on_resident_before(MonotonicNs /*time*/,
                                    const std::optional<ResidentMemory>& /*memory*/) {}
    /// The same when the watching ends.
    virtual void on_resident_after(const std::optional<ResidentMemory>& /*memory*/) {}
    /// This probe is watched from now on, if it has not been before. The name is not kept.
    virtual void on_probe(std::string_view /*name*/) {}
    virtual void on_probe_hit(const ProbeHit& /*hit*/) {}
    /// The code in this range is gone (dlclose) and may be followed by other code: a stack through
    /// it that is seen from now on is a different stack.
    virtual void on_code_gone(AddrRange range) = 0;
    /// Stacks that are new from now on are to be read with the module list of this generation.
    virtual void on_generation(std::uint32_t /*generation*/) {}
    /// Calls from before the first event may still be under way, or others come that are not seen,
    /// and give blocks of which nobody tells: while that is so, no block that ends is to be
    /// remembered as freed. At first it is not so.
    virtual void on_earlier_calls(bool /*any*/) {}
    /// Nobody has watched for a while, or calls have passed unseen, and watching begins again: the
    /// blocks that were live may have been freed since.
    virtual void on_gap(MonotonicNs /*time*/) {}
    /// The address space is gone (exec), and every block with it: none of them leaked.
    virtual void on_memory_gone(MonotonicNs /*time*/) {}
};

/// Gives call stacks their ids.
class StackInterner {
  public:
    virtual ~StackInterner() = default;
    /// The id of this stack, innermost frame first; equal stacks get equal ids.
    virtual StackId intern(std::span<const FrameAddress> frames, StackEnd end) = 0;
};

/// What can be asked about the account. The answer is of the time up to which events have been
/// delivered: who delivers late may ask in the order of delivery only, not at the call itself.
class AccountQueries {
  public:
    virtual ~AccountQueries() = default;
    /// Should the free of this address come with its stack? True only for suspects (an address that
    /// was freed already), so that the usual free costs no unwinding.
    virtual bool wants_free_stack(RemoteAddr address) = 0;
    /// Is this the address of a block that is live? A free of another one may be the allocator's
    /// own doing, and deserves a closer look.
    virtual bool is_live(RemoteAddr address) = 0;
};

/// One process's account, as its engine sees it. The three are mostly one object.
struct AccountAccess {
    EventSink& events;
    StackInterner& stacks;
    AccountQueries& queries;
};

} // namespace memleax
