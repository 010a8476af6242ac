// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/breakpoint.hpp"
#include "memleax/modules.hpp"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000 // Linux 4.17; older kernels take the address as a hint
#endif

namespace memleax {

namespace {

/// Also the largest page size that Linux has (arm64).
constexpr std::uint64_t kRegionBytes = 64ULL * 1024;
/// vm.mmap_min_addr is at most this on the distributions that we know.
constexpr std::uint64_t kLowestAddress = 64ULL * 1024;
/// Operands of the moved instructions lie up to the size of a module away from them; keep that much
/// of the reach in reserve.
constexpr std::uint64_t kReach = arch::kSlotReach / 2;

std::uint64_t distance(std::uint64_t a, std::uint64_t b) {
    return a > b ? a - b : b - a;
}

bool within_reach(AddrRange region, CodeAddr near) {
    return distance(region.begin, near.value()) < kReach &&
           distance(region.end, near.value()) < kReach;
}

/// Places where a region can go, best first: below the code that it serves, in the gap's upper end.
/// The heap grows up from the program's end and the main stack grows down, so a gap under the stack
/// is left alone, and in one above the heap we stay at the end that the heap reaches last.
std::vector<std::uint64_t> candidate_places(const std::vector<Mapping>& maps, CodeAddr near) {
    std::vector<std::uint64_t> places;
    std::uint64_t gap_begin = kLowestAddress;
    for (const Mapping& next : maps) {
        const std::uint64_t gap_end = next.range.begin;
        // One region's space stays free on either side.
        if (gap_end > gap_begin && gap_end - gap_begin >= 3 * kRegionBytes &&
            next.path != "[stack]") {
            const std::uint64_t place = (gap_end - 2 * kRegionBytes) & ~(kRegionBytes - 1);
            if (place >= gap_begin && within_reach({place, place + kRegionBytes}, near)) {
                places.push_back(place);
            }
        }
        gap_begin = std::max(gap_begin, next.range.end);
    }
    std::sort(places.begin(), places.end(), [near](std::uint64_t a, std::uint64_t b) {
        return distance(a, near.value()) < distance(b, near.value());
    });
    return places;
}

} // namespace

bool SlotArena::contains(CodeAddr pc) const {
    return std::any_of(regions_.begin(), regions_.end(),
                       [pc](const Region& region) { return region.range.contains(pc.value()); });
}

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
        auto mapped = map_region(near, worker);
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
        if (*result < 0 && *result >= -4095) {
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
    return Error(fmt::format("cannot map a page into process {} near {:#x}", target_.pid().value(),
                             near.value()),
                 errnum);
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
