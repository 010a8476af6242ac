// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/syscall.h>

#include "memleax/base/clock.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/near_mapping.hpp"

namespace memleax {

namespace {

/// A failure is one for all code that is so near: it has the same gaps to look into.
constexpr std::int64_t kNeighbourhood = arch::kSlotReach / 8;
/// Reading the mappings takes long where there are most of them; the target waits meanwhile.
constexpr std::int64_t kLeastPauseNs = 100'000'000;
constexpr std::int64_t kPauses = 100; // of the time that the attempt took

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
        if (region.range.contains(slot)) {
            region.free.push_back(slot);
        }
    }
}

Result<SlotArena::Region*> SlotArena::map_region_unless_it_failed(CodeAddr near, Tid worker) {
    const MonotonicNs begin = monotonic_now();
    std::erase_if(failures_, [begin](const Failure& each) { return each.until <= begin; });
    const auto failure = std::find_if(failures_.begin(), failures_.end(), [near](const auto& each) {
        return std::abs(each.near - near) < kNeighbourhood;
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
    auto mapped = map_code_near(target_, near, worker);
    if (!mapped) {
        return std::move(mapped).error();
    }
    auto known = handler_.add_region(*mapped);
    target_.record().borrowed.mapped.store(0);
    if (!known) {
        (void)target_.system_call(worker, SYS_munmap, {mapped->begin, mapped->size()});
        return std::move(known).error();
    }
    Region region{*mapped, {}};
    for (std::uint64_t at = region.range.end; at > region.range.begin; at -= arch::kSlotBytes) {
        region.free.emplace_back(at - arch::kSlotBytes); // lowest on top
    }
    regions_.push_back(std::move(region));
    return &regions_.back();
}

void SlotArena::adopt() {
    const RecoveryRecord& record = target_.record();
    for (std::uint32_t i = 0; i < record.region_count.load(); ++i) {
        if (record.regions[i].size() != 0) {
            regions_.push_back({record.regions[i], {}});
        }
    }
}

std::vector<AddrRange> SlotArena::ranges() const {
    std::vector<AddrRange> result;
    for (const Region& region : regions_) {
        result.push_back(region.range);
    }
    return result;
}

bool SlotArena::contains(CodeAddr pc) const {
    return std::any_of(regions_.begin(), regions_.end(),
                       [pc](const Region& region) { return region.range.contains(pc); });
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
