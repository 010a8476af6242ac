// SPDX-License-Identifier: GPL-3.0-or-later
#include "touched_memory.hpp"

#include <iterator>

#include <unistd.h>

namespace memleax {

namespace {

/// Below a thread's stack pointer: what a call or a push is about to write, the red zone, and the
/// steps in which large frames are probed (a page; 64 KiB on arm64).
constexpr std::uint64_t kBelowSp = std::uint64_t{64} * 1024;
/// Above it: as large as stacks are, unless somebody wants them larger (pthread_create(3)).
constexpr std::uint64_t kAboveSp = std::uint64_t{8} << 20;

/// What the kernel has joined, as a rule with one or two. Of more than that it is one piece again:
/// each new record would go through all of them.
constexpr std::size_t kMostJoined = 64;

std::uint64_t page_bytes() {
    static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

TouchedKind kind_of(std::string_view path) {
    if (path == "[heap]") {
        return TouchedKind::heap;
    }
    if (path == "[stack]") {
        return TouchedKind::stack;
    }
    // "[anon:NAME]" has been given a name (PR_SET_VMA_ANON_NAME), and is no file all the same.
    return path.empty() || path == "//anon" || path.starts_with("[anon") ? TouchedKind::anonymous
                                                                         : TouchedKind::file;
}

} // namespace

void TouchedMemory::set(const std::vector<Mapping>& mappings, RemoteAddr heap_begin) {
    const std::uint64_t first = (heap_begin.value() + page_bytes() - 1) / page_bytes();
    heap_page_ = AddrRange::at(RemoteAddr(first * page_bytes()), first != 0 ? page_bytes() : 0);
    pieces_.clear();
    for (const Mapping& mapping : mappings) {
        add(mapping.range, mapping.offset, mapping.path, false);
    }
}

void TouchedMemory::split(std::uint64_t at) {
    const auto next = pieces_.upper_bound(at);
    if (next == pieces_.begin()) {
        return;
    }
    auto& [begin, piece] = *std::prev(next);
    if (begin < at && at < piece.end) {
        Piece upper = piece;
        upper.offset += at - begin;
        piece.end = at;
        pieces_.emplace_hint(next, at, std::move(upper));
    }
}

std::vector<AddrRange> TouchedMemory::whole_anonymous(AddrRange range) const {
    std::vector<AddrRange> result;
    for (auto it = pieces_.lower_bound(range.begin);
         it != pieces_.end() && it->second.end <= range.end; ++it) {
        if (result.size() == kMostJoined) {
            return {};
        }
        if (it->second.kind == TouchedKind::anonymous) {
            result.push_back({it->first, it->second.end});
        }
    }
    return result;
}

void TouchedMemory::add(AddrRange range, FileOffset offset, std::string_view path, bool joined) {
    if (range.empty()) {
        return;
    }
    constexpr std::string_view kDeleted = " (deleted)";
    if (path.ends_with(kDeleted)) { // as in maps: Mapping::path is without it
        path.remove_suffix(kDeleted.size());
    }
    TouchedKind kind = kind_of(path);
    // At the first brk(2) of a process the kernel does not yet take it for the heap.
    if (kind == TouchedKind::anonymous && range.contains(heap_page_.start()) &&
        !heap_page_.empty()) {
        kind = TouchedKind::heap;
    }
    const bool may_be_joined = joined && kind == TouchedKind::anonymous;
    const auto others = may_be_joined ? whole_anonymous(range) : std::vector<AddrRange>();
    split(range.begin);
    split(range.end);
    pieces_.erase(pieces_.lower_bound(range.begin), pieces_.lower_bound(range.end));
    const auto put = [&](AddrRange part) {
        if (!part.empty()) {
            pieces_.emplace(
                part.begin,
                Piece{part.end, kind, offset.value(),
                      std::string(kind == TouchedKind::file ? path : std::string_view())});
        }
    };
    std::uint64_t done = range.begin;
    for (const AddrRange& other : others) {
        put({done, other.begin});
        put(other);
        done = other.end;
    }
    put({done, range.end});
}

TouchedMemory::Place TouchedMemory::find(RemoteAddr address, RemoteAddr sp) const {
    const auto next = pieces_.upper_bound(address.value());
    if (next == pieces_.begin() || std::prev(next)->second.end <= address.value()) {
        return {};
    }
    const auto& [begin, piece] = *std::prev(next);
    if (piece.kind == TouchedKind::file) {
        const std::uint64_t within = address.value() - begin;
        return {piece.kind, piece.file, FileOffset(piece.offset + within - within % page_bytes())};
    }
    // A thread's stack is a mapping like others: it is told by where its thread is.
    const bool is_stack = piece.kind == TouchedKind::anonymous && sp.value() != 0 &&
                          sp.value() >= begin && sp.value() < piece.end &&
                          address.value() + kBelowSp >= sp.value() &&
                          address.value() < sp.value() + kAboveSp;
    return {is_stack ? TouchedKind::stack : piece.kind, {}, {}};
}

} // namespace memleax
