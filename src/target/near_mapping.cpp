// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/near_mapping.hpp"

#include <algorithm>
#include <cerrno>
#include <optional>
#include <vector>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "memleax/proc/modules.hpp"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 // Linux 4.17; older kernels take the address as a hint
#endif

namespace memleax {

namespace {

/// vm.mmap_min_addr is at most this on the distributions that we know.
constexpr std::uint64_t kLowestAddress = 64ULL * 1024;
/// The stack keeps this much to grow, whatever it has taken: the usual RLIMIT_STACK. (Linux begins
/// to map that much, and more, below the stack's top: mmap_base in mm/util.c.)
constexpr std::uint64_t kStackGap = 8ULL * 1024 * 1024;

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : b - a;
}

/// Places where a region can go, best first: below the code that it serves, in the gap's upper end.
/// The heap grows up from the program's end, so in a gap above it we stay at the end that it
/// reaches last. The main stack grows down: in the gap under it, which nothing else is mapped into,
/// we go to the lower end, and only if all that is near the code is full (a hundred thread stacks
/// may fill what a branch reaches).
std::vector<std::uint64_t> candidate_places(const std::vector<Mapping>& maps, CodeAddr near) {
    std::vector<std::uint64_t> places;
    std::optional<std::uint64_t> last_resort;
    std::uint64_t gap_begin = kLowestAddress;
    for (const Mapping& next : maps) {
        const std::uint64_t gap_end = next.range.begin;
        const bool under_stack = next.path == "[stack]";
        // One region's space stays free on either side; a stack gets all that is usual.
        const std::uint64_t least = under_stack ? kStackGap : 3 * kRegionBytes;
        if (gap_end > gap_begin && gap_end - gap_begin >= least) {
            const std::uint64_t wanted =
                under_stack ? gap_begin + 2 * kRegionBytes : gap_end - 2 * kRegionBytes;
            const std::uint64_t place = wanted & ~(kRegionBytes - 1);
            if (place >= gap_begin && within_reach({place, place + kRegionBytes}, near)) {
                if (under_stack) {
                    last_resort = place;
                } else {
                    places.push_back(place);
                }
            }
        }
        gap_begin = std::max(gap_begin, next.range.end);
    }
    std::sort(places.begin(), places.end(), [near](std::uint64_t a, std::uint64_t b) {
        return distance(a, near.value()) < distance(b, near.value());
    });
    if (last_resort) {
        places.push_back(*last_resort);
    }
    return places;
}

} // namespace

bool within_reach(AddrRange region, CodeAddr near) {
    return distance(region.begin, near.value()) < arch::kSlotReach &&
           distance(region.end, near.value()) < arch::kSlotReach;
}

Error no_room(Tid pid, CodeAddr near, int errnum) {
    return Error(
        fmt::format("cannot map a page into process {} near {:#x}", pid.value(), near.value()),
        errnum);
}

Result<AddrRange> map_code_near(Target& target, CodeAddr near, Tid worker) {
    auto maps = read_maps(target.pid());
    if (!maps) {
        return std::move(maps).error();
    }
    int errnum = ENOMEM;
    for (const std::uint64_t place : candidate_places(*maps, near)) {
        auto result =
            target.system_call(worker, SYS_mmap,
                               {place, kRegionBytes, PROT_READ | PROT_EXEC,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, ~0ULL, 0});
        if (!result) {
            return std::move(result).error();
        }
        if (is_errno(*result)) {
            errnum = static_cast<int>(-*result);
            if (errnum == EEXIST) {
                continue; // another thread has mapped something there since we looked
            }
            break;
        }
        const auto begin = static_cast<std::uint64_t>(*result);
        if (begin != place) { // an old kernel, for which the address is a hint
            (void)target.system_call(worker, SYS_munmap, {begin, kRegionBytes});
            target.record().borrowed.mapped.store(0);
            continue;
        }
        return AddrRange::at(RemoteAddr(begin), kRegionBytes);
    }
    return no_room(target.pid(), near, errnum);
}

} // namespace memleax
