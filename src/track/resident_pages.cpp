// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/resident_pages.hpp"

#include <algorithm>
#include <utility>

#include <unistd.h>

namespace memleax {

namespace {

std::uint64_t page_size() {
    static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

/// The break may lie within a page, which stays then.
AddrRange whole_pages(AddrRange range) {
    const auto up = [](std::uint64_t address) {
        return (address + page_size() - 1) & ~(page_size() - 1);
    };
    return range.empty() ? AddrRange{} : AddrRange{up(range.begin), up(range.end)};
}

/// Where a part of `from` is when all of that has moved.
AddrRange moved_range(AddrRange part, AddrRange from, RemoteAddr to) {
    return AddrRange::at(RemoteAddr(to.value() + (part.begin - from.begin)), part.size());
}

} // namespace

void ResidentPages::begin(MonotonicNs time) {
    clear();
    is_counting_ = true;
    since_ = time;
}

void ResidentPages::clear() {
    pages_.clear();
    pages_of_.clear();
    calls_.clear();
    changes_.clear();
    untold_ = 0;
}

void ResidentPages::count(const Pieces& pieces, bool in) {
    for (const auto& piece : pieces) {
        if (piece.value >= pages_of_.size()) {
            pages_of_.resize(piece.value + 1);
        }
        std::uint64_t& count = pages_of_[piece.value];
        const std::uint64_t pages = piece.range.size() / page_size();
        count = in ? count + pages : count - pages;
    }
}

ResidentPages::Pieces ResidentPages::cut(AddrRange range) {
    Pieces pieces = pages_.cut(range);
    count(pieces, false);
    return pieces;
}

void ResidentPages::put(const Pieces& pieces) {
    count(pieces, true);
    count(pages_.add_where_free(pieces), false);
}

void ResidentPages::on_fault(RemoteAddr address, AddrRange huge, MonotonicNs time, Owner owner) {
    if (!is_counting_ || time < since_) {
        return;
    }
    const AddrRange page =
        AddrRange::at(RemoteAddr(address.value() & ~(page_size() - 1)), page_size());
    if (!huge.empty()) {
        RangeMap<Owner> others;
        others.add(huge, owner);
        others.cut(page);
        arrive(std::move(others), time, false);
    }
    RangeMap<Owner> touched;
    touched.add(page, owner);
    arrive(std::move(touched), time, true);
}

void ResidentPages::arrive(RangeMap<Owner> pages, MonotonicNs time, bool takes_over) {
    auto change =
        std::upper_bound(changes_.begin(), changes_.end(), time,
                         [](MonotonicNs when, const Change& each) { return when < each.time; });
    for (; change != changes_.end() && !pages.empty(); ++change) {
        RangeMap<Owner> moved;
        for (const auto& piece : pages.cut(change->range)) {
            if (change->to) {
                moved.add(moved_range(piece.range, change->range, *change->to), piece.value);
            }
        }
        if (!moved.empty()) {
            arrive(std::move(moved), change->time, takes_over);
        }
    }
    keep_for_calls(&pages, time, takes_over);
    for (const auto& piece : pages.pieces()) {
        if (pages_.size() >= most_) {
            untold_ += piece.range.size() / page_size();
            continue;
        }
        if (takes_over) {
            cut(piece.range);
        }
        put({piece});
    }
}

void ResidentPages::keep_for_calls(RangeMap<Owner>* pages, MonotonicNs time, bool takes_over) {
    for (auto& [tid, calls] : calls_) {
        for (Call& call : calls) {
            if (time >= call.time) {
                continue;
            }
            for (const AddrRange range : {call.left, call.replaced}) {
                const Pieces taken = pages->cut(range);
                for (const auto& piece : takes_over ? taken : Pieces()) {
                    call.pages.cut(piece.range);
                }
                call.pages.add_where_free(taken);
            }
        }
    }
}

void ResidentPages::remember(const Change& change) {
    if (change.range.empty()) {
        return;
    }
    const auto later =
        std::upper_bound(changes_.begin(), changes_.end(), change.time,
                         [](MonotonicNs when, const Change& each) { return when < each.time; });
    changes_.insert(later, change);
}

void ResidentPages::on_told(MonotonicNs until) {
    while (!changes_.empty() && changes_.front().time <= until) {
        changes_.pop_front();
    }
}

void ResidentPages::on_gone(AddrRange range) {
    cut(whole_pages(range));
}

void ResidentPages::on_mapping(const MappingEvent& event) {
    if (!is_counting_) {
        return;
    }
    if (event.step == MappingEvent::Step::called) {
        begin_call(event);
        return;
    }
    Call call{.left = {}, .replaced = {}, .time = event.time, .pages = {}};
    if (const auto under_way = calls_.find(event.tid); under_way != calls_.end()) {
        call = std::move(under_way->second.back());
        under_way->second.pop_back();
        if (under_way->second.empty()) {
            calls_.erase(under_way);
        }
    }
    if (event.step == MappingEvent::Step::succeeded) {
        finish_call(call, event);
    } else {
        put(call.pages.pieces());
    }
}

void ResidentPages::begin_call(const MappingEvent& event) {
    Call call{// With MREMAP_DONTUNMAP the mapping stays.
              .left = whole_pages(event.emptied.empty() ? event.unmapped[0] : event.emptied),
              .replaced = whole_pages(event.unmapped[1]),
              .time = event.time,
              .pages = {}};
    for (const AddrRange range : {call.left, call.replaced}) { // which may be the same
        call.pages.add_where_free(cut(range));
    }
    calls_[event.tid].push_back(std::move(call));
}

void ResidentPages::finish_call(const Call& call, const MappingEvent& event) {
    const AddrRange added = whole_pages(event.added);
    remember({call.time, call.replaced, std::nullopt});
    empty_new(added, call);
    if (event.call == MappingCall::mremap) {
        finish_move(call, added);
    } else {
        remember({call.time, call.left, std::nullopt});
    }
    for (const AddrRange range : event.unmapped) { // brk's, of which only the end can tell
        cut(whole_pages(range));
        remember({event.time, whole_pages(range), std::nullopt});
    }
}

void ResidentPages::empty_new(AddrRange added, const Call& call) {
    if (added.empty()) {
        return;
    }
    RangeMap<bool> fresh;
    fresh.add(added, true);
    for (const AddrRange range : {call.left, call.replaced}) { // known since the call began
        fresh.cut(range);
    }
    for (const auto& piece : fresh.pieces()) {
        cut(piece.range);
        remember({call.time, piece.range, std::nullopt});
    }
}

void ResidentPages::finish_move(const Call& call, AddrRange to) {
    const std::uint64_t moved = std::min(call.left.size(), to.size());
    const AddrRange from = AddrRange::at(call.left.start(), moved);
    remember({call.time, {from.end, call.left.end}, std::nullopt});
    remember({call.time, from, to.start()});
    Pieces there;
    for (const auto& piece : call.pages.pieces()) {
        if (const AddrRange part = piece.range.common_with(from); !part.empty()) {
            there.push_back({moved_range(part, from, to.start()), piece.value});
        }
    }
    put(there);
}

} // namespace memleax
