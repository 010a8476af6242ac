// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/mapping_account.hpp"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

namespace memleax {

namespace {

std::uint64_t bytes_of(const std::vector<MappedRanges::Piece>& pieces) {
    std::uint64_t bytes = 0;
    for (const MappedRanges::Piece& piece : pieces) {
        bytes += piece.range.size();
    }
    return bytes;
}

void append(std::vector<MappedRanges::Piece>& to, const std::vector<MappedRanges::Piece>& more) {
    to.insert(to.end(), more.begin(), more.end());
}

} // namespace

void MappingAccount::on_mapped_before(std::span<const AddrRange> ranges) {
    mapped_before_.clear();
    for (const AddrRange range : ranges) {
        on_own_mapping(range);
    }
}

void MappingAccount::on_own_mapping(AddrRange range) {
    if (!range.empty() && mapped_before_.covered(range) == 0) {
        mapped_before_.insert({.whole = range,
                               .kind = MemoryKind::allocator, // it never expires
                               .stack = kNoStack,
                               .tid = {},
                               .time = {}});
    }
}

void MappingAccount::begin_unmapping(const MappingEvent& event) {
    Unmapping call;
    call.named = event.unmapped[0];
    for (const AddrRange range : event.unmapped) {
        append(call.pieces, mapped_.cut(range));
        append(call.before, mapped_before_.cut(range));
    }
    if (event.detached.value() != 0) {
        append(call.pieces, mapped_.cut_mapping(MemoryKind::shm, event.detached));
    }
    if (call.named.size() == 0 && !call.pieces.empty()) {
        call.named = {call.pieces.front().range.begin, call.pieces.back().range.end};
    }
    unmapping_[event.tid].push_back(std::move(call));
}

void MappingAccount::on_mapping(const MappingEvent& event) {
    if (event.step == MappingEvent::Step::called) {
        begin_unmapping(event);
        return;
    }
    Unmapping call;
    if (const auto under_way = unmapping_.find(event.tid); under_way != unmapping_.end()) {
        call = std::move(under_way->second.back());
        under_way->second.pop_back();
        if (under_way->second.empty()) {
            unmapping_.erase(under_way);
        }
    }
    if (event.step == MappingEvent::Step::failed) {
        ++totals_.failed;
        log_mapping(event, kind_of(event, call.pieces), call.named, 0);
        end_pieces(mapped_.put_back(call.pieces), event.time);
        mapped_before_.put_back(call.before);
        return;
    }
    for (const AddrRange range : event.unmapped) { // brk's, of which only the end can tell
        append(call.pieces, mapped_.cut(range));
        append(call.before, mapped_before_.cut(range));
        call.named = range.size() != 0 ? range : call.named;
    }
    const MemoryKind kind = kind_of(event, call.pieces);
    log_mapping(event, kind, call.named, bytes_of(call.pieces));
    totals_.unmapped += end_pieces(call.pieces, event.time) ? 1 : 0;
    if (!event.added.empty()) {
        begin_mapping(event, kind);
    }
}

void MappingAccount::log_mapping(const MappingEvent& event, MemoryKind kind, AddrRange unmapped,
                                 std::uint64_t known) {
    log_.add({.number = 0, // given there
              .time = event.time,
              .tid = event.tid,
              .call = event.call,
              .kind = kind,
              .added = event.added,
              .unmapped = unmapped,
              .known = known,
              .failed = event.step == MappingEvent::Step::failed,
              .stack = event.stack});
}

std::uint64_t MappingAccount::unexplained(AddrRange range, std::uint64_t page_size) const {
    const auto known = [this](AddrRange part) {
        return mapped_.covered(part) + mapped_before_.covered(part);
    };
    std::uint64_t bytes = range.size() - known(range);
    for (const std::uint64_t page : std::set{range.begin, range.end - page_size}) {
        const std::uint64_t in_page = known({page, page + page_size});
        bytes -= in_page != 0 ? page_size - in_page : 0;
    }
    return bytes;
}

/// What mremap moves stays what it was.
MemoryKind MappingAccount::kind_of(const MappingEvent& event, const Pieces& unmapped) const {
    const bool inherits = event.kind == MemoryKind::mmap && !unmapped.empty() &&
                          (event.call == MappingCall::mremap || event.call == MappingCall::munmap);
    return inherits ? mapped_[unmapped.front().value].kind : event.kind;
}

void MappingAccount::begin_mapping(const MappingEvent& event, MemoryKind kind) {
    // What was unmapped without our seeing it, or is replaced.
    end_pieces(mapped_.cut(event.added), event.time);
    (void)mapped_before_.cut(event.added);
    mapped_.insert({.whole = event.added,
                    .kind = kind,
                    .stack = event.stack,
                    .tid = event.tid,
                    .time = event.time});
    ++totals_.mapped;
    totals_.live.at(static_cast<std::size_t>(kind)).add(event.added.size());
    CallStackAccount& account = stacks_[event.stack];
    account.kind = kind;
    account.alloc.add(event.added.size());
    if (is_programs_own(kind)) {
        intervals_.count_allocation(event.stack, event.time, event.added.size());
    }
}

bool MappingAccount::end_pieces(const Pieces& pieces, MonotonicNs time) {
    for (const MappedRanges::Piece& piece : pieces) {
        const MappedMemory& memory = mapped_[piece.value];
        const std::int64_t age = std::max<std::int64_t>(time.value() - memory.time.value(), 0);
        const bool is_own = is_programs_own(memory.kind);
        if (is_own && !memory.expired && age >= expire_ns_) {
            expire_one(piece.value);
        }
        const MappedMemory left = mapped_.unmap(piece);
        const bool whole = left.bytes == 0;
        const std::uint64_t size = piece.range.size();
        BlockCount& live = totals_.live.at(static_cast<std::size_t>(left.kind));
        live = live - BlockCount{whole ? 1U : 0U, size};
        if (is_own && whole) {
            intervals_.count_free(left.stack, left.time, age, size);
        } else if (is_own) {
            intervals_.shrink(left.stack, left.time, size);
        }
        stacks_.count_end(left.stack, age, size, left.expired, whole);
    }
    return !pieces.empty();
}

bool MappingAccount::expire(MonotonicNs latest, std::size_t budget) {
    for (; budget > 0; --budget) {
        const auto id = mapped_.next_to_expire(latest);
        if (!id) {
            return false;
        }
        expire_one(*id);
    }
    return true;
}

void MappingAccount::expire_one(MappingId id) {
    mapped_.mark_expired(id);
    stacks_.count_expired(mapped_[id].stack, mapped_[id].bytes);
}

void MappingAccount::forget() {
    for (const auto& [id, memory] : mapped_.mappings()) {
        stacks_.count_untracked(memory.stack, memory.bytes, memory.expired);
    }
    mapped_.clear();
    mapped_before_.clear();
    unmapping_.clear();
    totals_.live = {};
}

void MappingAccount::end_all(MonotonicNs time) {
    Pieces ending = mapped_.pieces();
    for (const auto& [tid, calls] : std::exchange(unmapping_, {})) {
        for (const Unmapping& call : calls) {
            append(ending, call.pieces);
        }
    }
    end_pieces(ending, time);
    mapped_.clear();
    mapped_before_.clear();
}

} // namespace memleax
