// SPDX-License-Identifier: GPL-3.0-or-later
#include "forked_memory.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "memleax/base/log.hpp"
#include "memleax/proc/copyable.hpp"
#include "memleax/proc/mapping_flags.hpp"
#include "memleax/proc/memory_room.hpp"
#include "memleax/proc/process_memory.hpp"

namespace memleax {

namespace {

/// `ranges` ascend and do not overlap; neighbours may be the parts of one mapping.
bool covers(const std::vector<AddrRange>& ranges, AddrRange range) {
    auto part = std::partition_point(ranges.begin(), ranges.end(), [range](const AddrRange& each) {
        return each.end <= range.begin;
    });
    for (; range.begin < range.end && part != ranges.end() && part->begin <= range.begin; ++part) {
        range.begin = part->end;
    }
    return range.begin >= range.end;
}

bool overlap(const std::vector<AddrRange>& ranges, AddrRange range) {
    return std::any_of(ranges.begin(), ranges.end(),
                       [range](const AddrRange& each) { return each.overlaps(range); });
}

/// Reads the copy as long as the process has room for what it may yet take beside it. As soon as it
/// has not, the copy ends: who would be killed or slowed down for it is the process.
class CopyThatMayEnd final : public MemoryReader {
  public:
    CopyThatMayEnd(ProcessCopy& copy, Tid of)
        : copy_(copy), limits_(of),
          room_to_be_left_(memleax::room_to_be_left(try_read_written_bytes(of).value_or(0))) {}

    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        if (limits_.check(room_to_be_left_ / 2, kMemoryAgain)) {
            return copy_.try_read(from, out);
        }
        copy_.kill();
        has_ended_ = true;
        return 0;
    }
    [[nodiscard]] bool has_ended() const { return has_ended_; }

  private:
    ProcessCopy& copy_;
    MemoryRoom limits_;
    std::uint64_t room_to_be_left_;
    std::atomic<bool> has_ended_ = false;
};

} // namespace

std::vector<AddrRange> ranges_of(const std::vector<Mapping>& mappings) {
    std::vector<AddrRange> ranges;
    ranges.reserve(mappings.size());
    for (const Mapping& mapping : mappings) {
        ranges.push_back(mapping.range);
    }
    return ranges;
}

Result<std::unique_ptr<ForkedMemory>> ForkedMemory::take(HeldProcess& process, MemoryReader& memory,
                                                         const std::vector<Mapping>& mappings,
                                                         const std::vector<Mapping>& searched,
                                                         const std::vector<AddrRange>& wiped,
                                                         PresentPages* pages, StoredMemory* room) {
    if (auto may = check_mappings_copyable(mappings); !may) {
        return may.error();
    }
    Target& target = process.target();
    auto copy = ProcessCopy::make(target, mappings);
    if (!copy) {
        return std::move(copy).error();
    }
    const auto discard = [&](Error why) {
        (*copy)->end();
        if (auto reaped = reap_copies(target); !reaped) {
            log_warning("{}", reaped.error().message());
        }
        return why;
    };
    auto copied = read_maps((*copy)->pid());
    if (!copied) {
        return discard(std::move(copied).error());
    }
    const std::vector<AddrRange> there = ranges_of(*copied);
    std::vector<Mapping> in_copy;
    std::vector<Mapping> others;
    for (const Mapping& mapping : searched) {
        const bool is_in_copy =
            !mapping.shared && covers(there, mapping.range) && !overlap(wiped, mapping.range);
        (is_in_copy ? in_copy : others).push_back(mapping);
    }
    pages->keep(ranges_of(others));
    if (!room->copy(memory, others, *pages)) {
        return discard(Error("there is no room for what a copy does not have"));
    }
    std::unique_ptr<ForkedMemory> forked(new ForkedMemory(target.pid(), *copy));
    forked->in_copy_ = std::move(in_copy);
    process.keep_copy(*std::move(copy));
    return forked;
}

Result<void> ForkedMemory::read(std::vector<AddrRange>* wiped, PresentPages* pages,
                                StoredMemory* room) {
    auto flagged = read_flagged_mappings(copy_->pid(), "wf", "io");
    if (!flagged) {
        return Error("the kernel does not tell what is wiped in a copy");
    }
    std::vector<AddrRange>& wiped_in_copy = flagged->first;
    const std::vector<AddrRange>& of_devices = flagged->second;
    const bool is_known = std::none_of(in_copy_.begin(), in_copy_.end(), [&](const Mapping& each) {
        return overlap(wiped_in_copy, each.range);
    });
    if (!is_known) {
        *wiped = std::move(wiped_in_copy);
        return Error("a part of the memory is not there in a copy", EAGAIN);
    }
    // To read a device's memory may change what the device does, and through the copy the kernel
    // would (access_process_vm, unlike process_vm_readv).
    std::erase_if(in_copy_, [&](const Mapping& each) { return overlap(of_devices, each.range); });
    PresentPages copied(copy_->pid());
    copied.keep(ranges_of(in_copy_));
    const std::size_t short_before = room->short_reads();
    CopyThatMayEnd copy(*copy_, pid_);
    if (!room->copy(copy, in_copy_, copied)) {
        return Error("the process has grown beyond what there is room for");
    }
    if (copy.has_ended()) {
        return Error("its memory has become too scarce for a copy of it");
    }
    if (copy_->is_dead()) { // its number may have been another's
        return Error("somebody has killed the copy of it");
    }
    if (room->short_reads() != short_before) {
        return Error("a part of its memory cannot be read in a copy");
    }
    pages->adopt(copied);
    return {};
}

} // namespace memleax
