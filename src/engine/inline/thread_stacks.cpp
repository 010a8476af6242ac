// SPDX-License-Identifier: GPL-3.0-or-later
#include "thread_stacks.hpp"

#include <algorithm>

#include "memleax/proc/maps.hpp"

namespace memleax {

std::optional<AddrRange> ThreadStacks::of(Tid tid, RemoteAddr sp, std::uint64_t thread_pointer) {
    if (!younger_.contains(tid)) {
        if (const auto known = find(sp); known && known->contains(thread_pointer)) {
            return known;
        }
    }
    if (tid != target_.pid()) { // the first one's grows
        if (const auto asked = query_.covering(sp)) {
            return asked;
        }
    }
    read();
    return find(sp);
}

std::optional<AddrRange> ThreadStacks::of_newborn(RemoteAddr sp, std::uint64_t thread_pointer) {
    const auto asked = query_.covering(sp);
    return asked && asked->contains(thread_pointer) ? asked : std::nullopt;
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
