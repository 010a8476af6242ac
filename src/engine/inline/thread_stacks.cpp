// SPDX-License-Identifier: GPL-3.0-or-later
#include "thread_stacks.hpp"

#include <algorithm>

#include <unistd.h>

#include "memleax/proc/maps.hpp"

namespace memleax {

namespace {

// What the kernel has joined with a thread's stack may go while the thread lives. The thread's
// block, further out than its stack, is there as long.
std::optional<AddrRange> own_part(std::optional<AddrRange> mapping, RemoteAddr sp,
                                  std::uint64_t thread_pointer) {
    static const auto page = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    if (mapping && mapping->contains(thread_pointer) && thread_pointer > sp.value()) {
        mapping->end = std::min(mapping->end, (thread_pointer & ~(page - 1)) + page);
    }
    return mapping;
}

} // namespace

std::optional<AddrRange> ThreadStacks::of(Tid tid, RemoteAddr sp, std::uint64_t thread_pointer) {
    if (!younger_.contains(tid)) {
        if (const auto known = find(sp); known && known->contains(thread_pointer)) {
            return own_part(known, sp, thread_pointer);
        }
    }
    if (tid != target_.pid()) { // the first one's grows
        if (const auto asked = query_.covering(sp)) {
            return own_part(asked, sp, thread_pointer);
        }
    }
    read();
    return own_part(find(sp), sp, thread_pointer);
}

std::optional<AddrRange> ThreadStacks::of_newborn(RemoteAddr sp, std::uint64_t thread_pointer) {
    const auto asked = query_.covering(sp);
    return asked && asked->contains(thread_pointer) ? own_part(asked, sp, thread_pointer)
                                                    : std::nullopt;
}

std::optional<AddrRange> ThreadStacks::find(RemoteAddr sp) const {
    const auto behind = std::upper_bound(
        mappings_.begin(), mappings_.end(), sp.value(),
        [](std::uint64_t address, const AddrRange& range) { return address < range.begin; });
    if (behind == mappings_.begin() || !std::prev(behind)->contains(sp.value())) {
        return std::nullopt;
    }
    return *std::prev(behind);
}

void ThreadStacks::read() {
    const auto maps = read_maps(target_.pid());
    mappings_.clear();
    younger_.clear();
    std::uint64_t end_before = 0;
    for (const Mapping& mapping : maps ? *maps : std::vector<Mapping>()) {
        // The first thread's grows downwards.
        const bool grows = mapping.path == "[stack]";
        mappings_.push_back({grows ? end_before : mapping.range.begin, mapping.range.end});
        end_before = mapping.range.end;
    }
}

void ThreadStacks::forget() {
    mappings_.clear();
    younger_.clear();
    query_.forget();
}

} // namespace memleax
