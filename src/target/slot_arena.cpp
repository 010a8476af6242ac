// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/target/breakpoint.hpp"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 // Linux 4.17; older kernels take the address as a hint
#endif

namespace memleax {

namespace {

/// Also the largest page size that Linux has (arm64).
constexpr std::uint64_t kRegionBytes = 64ULL * 1024;
/// vm.mmap_min_addr is at most this on the distributions that we know.
constexpr std::uint64_t kLowestAddress = 64ULL * 1024;
/// The stack keeps this much to grow, whatever it has taken: the usual RLIMIT_STACK. (Linux begins
/// to map that much, and more, below the stack's top: mmap_base in mm/util.c.)
constexpr std::uint64_t kStackGap = 8ULL * 1024 * 1024;

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : b - a;
}

/// A failure is one for all code that is so near: it has the same gaps to look into.
constexpr std::uint64_t kNeighbourhood = arch::kSlotReach / 8;
/// Reading the mappings takes long where there are most of them; the target waits meanwhile.
constexpr std::int64_t kLeastPauseNs = 100'000'000;
constexpr std::int64_t kPauses = 100; // of the time that the attempt took

Error no_room(Tid pid, CodeAddr near, int errnum) {
    return Error(
        fmt::format("cannot map a page into process {} near {:#x}", pid.value(), near.value()),
        errnum);
}

bool within_reach(AddrRange region, CodeAddr near) {
    return distance(region.begin, near.value()) < arch::kSlotReach &&
           distance(region.end, near.value()) < arch::kSlotReach;
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

CodeAddr SlotArena::slot_of(CodeAddr pc) const {
    // Regions start at multiples of their size.
    return CodeAddr(pc.value() - pc.value() % arch::kSlotBytes);
}

Result<CodeAddr> SlotArena::allocate(CodeAddr near, Tid worker) {
    Region* region = nullptr;
    for (Region& candidate : regions_) {
        if (!candidate.free.empty() && within_reach(candidate.range, near)) {
            region = &candidate;
            break;
        }
    }
    if (region == nullptr) {
        auto mapped = map_region_unless_it_failed(near, worker);
        if (!mapped) {
            return std::move(mapped).error();
        }
        region = *mapped;
    }
    const CodeAddr slot = region->free.back();
    region->free.pop_back();
    return slot;
}

void SlotArena::release(CodeAddr slot) {
    for (Region& region : regions_) {
        if (region.range.contains(slot.value())) {
            region.free.push_back(slot);
        }
    }
}

Result<SlotArena::Region*> SlotArena::map_region_unless_it_failed(CodeAddr near, Tid worker) {
    const MonotonicNs begin = monotonic_now();
    std::erase_if(failures_, [begin](const Failure& each) { return each.until <= begin; });
    const auto failure = std::find_if(failures_.begin(), failures_.end(), [near](const auto& each) {
        return distance(each.near.value(), near.value()) < kNeighbourhood;
    });
    if (failure != failures_.end()) {
        return no_room(target_.pid(), near, failure->errnum);
    }
    auto mapped = map_region(near, worker);
    if (!mapped && target_.threads().contains(worker)) { // else it was killed meanwhile
        const MonotonicNs end = monotonic_now();
        const std::int64_t pause = std::max(kLeastPauseNs, kPauses * (end.value() - begin.value()));
        failures_.push_back({near, mapped.error().errnum(), MonotonicNs(end.value() + pause)});
    }
    return mapped;
}

Result<SlotArena::Region*> SlotArena::map_region(CodeAddr near, Tid worker) {
    auto maps = read_maps(target_.pid());
    if (!maps) {
        return std::move(maps).error();
    }
    int errnum = ENOMEM;
    for (const std::uint64_t place : candidate_places(*maps, near)) {
        auto result =
            target_.system_call(worker, SYS_mmap,
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
            (void)target_.system_call(worker, SYS_munmap, {begin, kRegionBytes});
            target_.record().borrowed.mapped.store(0);
            continue;
        }
        auto known = handler_.add_region({begin, begin + kRegionBytes});
        target_.record().borrowed.mapped.store(0);
        if (!known) {
            (void)target_.system_call(worker, SYS_munmap, {begin, kRegionBytes});
            return std::move(known).error();
        }
        Region region{{begin, begin + kRegionBytes}, {}};
        for (std::uint64_t at = region.range.end; at > begin; at -= arch::kSlotBytes) {
            region.free.emplace_back(at - arch::kSlotBytes); // lowest on top
        }
        regions_.push_back(std::move(region));
        return &regions_.back();
    }
    return no_room(target_.pid(), near, errnum);
}

void SlotArena::adopt() {
    const RecoveryRecord& record = target_.record();
    for (std::uint32_t i = 0; i < record.region_count.load(); ++i) {
        regions_.push_back({record.regions[i], {}});
    }
}

std::vector<AddrRange> SlotArena::ranges() const {
    std::vector<AddrRange> result;
    for (const Region& region : regions_) {
        result.push_back(region.range);
    }
    return result;
}

Result<void> SlotArena::unmap(Tid worker) {
    for (const Region& region : regions_) {
        auto result =
            target_.system_call(worker, SYS_munmap, {region.range.begin, region.range.size()});
        if (!result) {
            return std::move(result).error();
        }
        if (*result != 0) {
            return Error(fmt::format("cannot unmap {:#x} in process {}", region.range.begin,
                                     target_.pid().value()),
                         static_cast<int>(-*result));
        }
    }
    regions_.clear();
    return {};
}

} // namespace memleax
