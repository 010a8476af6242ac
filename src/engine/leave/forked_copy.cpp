// SPDX-License-Identifier: GPL-3.0-or-later
// Our pages are copied as well (no MADV_DONTFORK), although that costs a call in each child: should
// we die before we get to a child, it lives on with its breakpoints, as the target does.
#include "forked_copy.hpp"

#include <algorithm>

#include <sys/syscall.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/mapping_flags.hpp"

namespace memleax {

namespace {

/// Of our data, which is full of zeros in a child: what the child has, by the flag of its mappings.
void keep_wiped(Tid child, std::vector<AddrRange>* data) {
    const auto wiped = read_flagged_mappings(child, "wf");
    std::erase_if(*data, [&wiped](AddrRange range) {
        std::uint64_t found = 0; // it is more than one mapping
        for (const AddrRange& each : wiped.value_or(std::vector<AddrRange>())) {
            const bool is_part = each.begin >= range.begin && each.end <= range.end;
            found += is_part ? each.size() : 0;
        }
        return found != range.size();
    });
}

} // namespace

OwnPages::OwnPages(RemoteMemory& memory, const OwnCodes& own) : data_(own.data_ranges()) {
    for (const AddrRange range : own.ranges()) {
        Code code{range};
        if (memory.try_read_unmasked(RemoteAddr(range.begin), code.begin) == code.begin.size()) {
            codes_.push_back(code);
        }
    }
}

void OwnPages::unmap_copies(Target& target, Tid child) const {
    auto memory = RemoteMemory::open(child);
    if (!memory) {
        return; // killed
    }
    // The child was copied at some moment, and what was there then may have been something else.
    const auto is_there = [&memory](const Code& code) {
        decltype(code.begin) its{};
        return memory->try_read_unmasked(RemoteAddr(code.range.begin), its) == its.size() &&
               its == code.begin &&
               std::any_of(its.begin(), its.end(), [](std::byte b) { return b != std::byte{0}; });
    };
    const auto unmap = [&](AddrRange range) {
        const auto result =
            target.system_call_in_copy(child, *memory, SYS_munmap, {range.begin, range.size()});
        if (!result || *result != 0) {
            log_debug("child {}: a page of ours stays mapped", child.value());
        }
    };
    // What the first page of code leads to is older than that, and goes after it.
    std::vector<AddrRange> data = data_;
    if (!codes_.empty() && !data.empty() && !is_there(codes_.front())) {
        keep_wiped(child, &data);
    }
    std::for_each(data.begin(), data.end(), unmap);
    for (const Code& code : codes_) {
        if (is_there(code)) {
            unmap(code.range);
        }
    }
}

void clean_copy(Target& target, BreakpointTable& breakpoints, TrapSignal& trap_signal, Tid child,
                const OwnPages& pages) {
    const auto restored = breakpoints.restore_in_copy(child);
    if (!restored) {
        log_debug("child {}: {}", child.value(), restored.error().message());
    }
    trap_signal.action().restore_in_copy(child);
    if (!pages.empty()) {
        pages.unmap_copies(target, child);
    }
}

} // namespace memleax
