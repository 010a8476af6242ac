// SPDX-License-Identifier: GPL-3.0-or-later
// Our pages are copied as well (no MADV_DONTFORK), although that costs a call in each child: should
// we die before we get to a child, it lives on with its breakpoints, as the target does.
#include "forked_copy.hpp"

#include <algorithm>
#include <array>

#include <sys/syscall.h>

#include "memleax/base/log.hpp"

namespace memleax {

namespace {

/// Is it the page that the target has there? The child was copied at some moment, and what was
/// there then may have been something else.
bool is_same_page(RemoteMemory& target, RemoteMemory& child, AddrRange page) {
    std::array<std::byte, arch::kSlotBytes> ours{};
    std::array<std::byte, arch::kSlotBytes> its{};
    const RemoteAddr at(page.begin);
    return target.try_read_unmasked(at, ours) == ours.size() &&
           child.try_read_unmasked(at, its) == its.size() && ours == its &&
           std::any_of(ours.begin(), ours.end(), [](std::byte b) { return b != std::byte{0}; });
}

void unmap_pages(Target& target, const OwnCodes& own, Tid child) {
    auto memory = RemoteMemory::open(child);
    if (!memory) {
        return; // killed
    }
    const auto unmap = [&](AddrRange range) {
        const auto result =
            target.system_call_in_copy(child, *memory, SYS_munmap, {range.begin, range.size()});
        if (!result || *result != 0) {
            log_debug("child {}: a page of ours stays mapped", child.value());
        }
    };
    const std::vector<AddrRange> pages = own.ranges();
    if (!pages.empty() && is_same_page(target.memory(), *memory, pages.front())) {
        // It is full of zeros there. What the first page of code leads to is older than that.
        for (const AddrRange range : own.data_ranges()) {
            unmap(range);
        }
    }
    for (const AddrRange page : pages) {
        if (is_same_page(target.memory(), *memory, page)) {
            unmap(page);
        }
    }
}

} // namespace

void clean_copy(Target& target, BreakpointTable& breakpoints, TrapSignal& trap_signal, Tid child,
                bool pages_are_referred_to) {
    const auto restored = breakpoints.restore_in_copy(child);
    if (!restored) {
        log_debug("child {}: {}", child.value(), restored.error().message());
    }
    trap_signal.action().restore_in_copy(child);
    if (const OwnCodes& own = breakpoints.own_codes(); !own.empty() && !pages_are_referred_to) {
        unmap_pages(target, own, child);
    }
}

} // namespace memleax
