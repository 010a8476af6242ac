// SPDX-License-Identifier: GPL-3.0-or-later
/// The pages that faults have brought in and that nobody has given back, by who touched them last.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/mapping_event.hpp"
#include "memleax/track/range_map.hpp"

namespace memleax {

/// Two streams meet here. Mapping calls are told as they happen; faults some milliseconds later, in
/// order of time. So what was given back is remembered until all faults of that time have been
/// told: one that is older is of a page that is gone. Both have CLOCK_MONOTONIC's time. Not
/// thread-safe.
class ResidentPages {
  public:
    /// Whose a page is: the number of a call stack, for instance.
    using Owner = std::uint32_t;

    /// `most` pieces of adjacent pages of one owner (some 100 bytes each) are remembered.
    explicit ResidentPages(std::size_t most = std::size_t{1} << 20) : most_(most) {}

    /// What comes in from then on is counted; all that is there is from before. Until that is told,
    /// nothing is.
    void begin(MonotonicNs time);
    /// A page came in. One that is there already is this owner's from now on. With it came the huge
    /// page that it is in, if `huge` is not empty: of that, what is there already stays whose it
    /// was.
    void on_fault(RemoteAddr address, AddrRange huge, MonotonicNs time, Owner owner);
    void on_mapping(const MappingEvent& event);
    /// All that is in this range is gone, whoever has unmapped it.
    void on_gone(AddrRange range);
    /// All faults up to then have been told.
    void on_told(MonotonicNs until);
    /// The address space is gone.
    void clear();

    [[nodiscard]] bool is_counting() const { return is_counting_; }
    [[nodiscard]] std::uint64_t pages_of(Owner owner) const {
        return owner < pages_of_.size() ? pages_of_[owner] : 0;
    }
    /// Pages that could not be remembered, as there were too many pieces.
    [[nodiscard]] std::uint64_t untold() const { return untold_; }

  private:
    using Pieces = std::vector<RangeMap<Owner>::Piece>;
    /// A call that is about to give pages back.
    struct Call {
        AddrRange left;     ///< in whole pages; mremap moves what is there
        AddrRange replaced; ///< by mremap
        MonotonicNs time;
        RangeMap<Owner> pages; ///< in these ranges, from before it
    };
    /// At this time all pages of a range went.
    struct Change {
        MonotonicNs time;
        AddrRange range;
        std::optional<RemoteAddr> to; ///< moved; else they are gone
    };
    void begin_call(const MappingEvent& event);
    void finish_call(const Call& call, const MappingEvent& event);
    void finish_move(const Call& call, AddrRange to);
    /// What is mapped anew has no pages yet.
    void empty_new(AddrRange added, const Call& call);
    /// Pages that came in at this time and that may have gone or moved since.
    void arrive(RangeMap<Owner> pages, MonotonicNs time, bool takes_over);
    /// Takes out what a call that is under way, and later than that, is about to give back.
    void keep_for_calls(RangeMap<Owner>* pages, MonotonicNs time, bool takes_over);
    void remember(const Change& change);
    /// Takes pages out; they count no more.
    Pieces cut(AddrRange range);
    /// Where nothing has come in meanwhile.
    void put(const Pieces& pieces);
    void count(const Pieces& pieces, bool in);

    std::size_t most_;
    bool is_counting_ = false;
    MonotonicNs since_{};
    RangeMap<Owner> pages_;
    std::vector<std::uint64_t> pages_of_; ///< by owner
    absl::flat_hash_map<Tid, std::vector<Call>> calls_;
    /// By time: those of which older faults may still be told.
    std::deque<Change> changes_;
    std::uint64_t untold_ = 0;
};

} // namespace memleax
