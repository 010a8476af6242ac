// SPDX-License-Identifier: GPL-3.0-or-later
#include "heap_moment.hpp"

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <utility>

#include <fmt/format.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/copyable.hpp"
#include "memleax/proc/kernel_pointers.hpp"
#include "memleax/proc/memory_room.hpp"
#include "memleax/proc/process_memory.hpp"

namespace memleax {

namespace {

/// Without what is ours as a whole.
std::vector<Mapping> searched_mappings(const std::vector<Mapping>& mappings,
                                       const std::vector<AddrRange>& own_memory) {
    std::vector<Mapping> result;
    std::copy_if(mappings.begin(), mappings.end(), std::back_inserter(result),
                 [&own_memory](const Mapping& mapping) {
                     const auto is_in = [&mapping](const AddrRange& own) {
                         return own.begin <= mapping.range.begin && mapping.range.end <= own.end;
                     };
                     return is_searched(mapping) &&
                            std::none_of(own_memory.begin(), own_memory.end(), is_in);
                 });
    return result;
}

/// All that is swapped out comes back when it is read: without room the kernel would kill for it,
/// and whom it kills is the process.
Result<void> check_room_for_swapped(Tid pid) {
    const std::uint64_t bytes = try_read_swapped_bytes(pid).value_or(0);
    if (bytes == 0) {
        return {};
    }
    constexpr std::uint64_t kPartForOthers = 4; // who run meanwhile
    auto has_room = MemoryRoom(pid).check_swapped(
        bytes + bytes / kPartForOthers, "what it has swapped out, which a look brings back");
    if (!has_room) {
        return std::move(has_room).error().while_doing(
            fmt::format("the memory of process {} is not read", pid.value()));
    }
    return {};
}

} // namespace

Result<HeapMoment> take_moment(HeldProcess& process, std::vector<ThreadView> threads,
                               std::vector<AddrRange> own_memory, RoomForCopy* room) {
    const Tid pid = process.target().pid();
    HeapMoment moment;
    moment.threads = std::move(threads);
    moment.own_memory = std::move(own_memory);
    const auto& mappings = process.mappings();
    if (!mappings) {
        return mappings.error();
    }
    moment.mappings = *mappings;
    moment.time = monotonic_now();
    moment.kernel_pointers = read_kernel_pointers(pid);
    moment.pages = std::make_unique<PresentPages>(pid);
    const std::vector<Mapping> searched = searched_mappings(moment.mappings, moment.own_memory);
    auto shared = std::make_unique<SharedParts>(pid, searched, *moment.pages);
    moment.pages->set_others(shared->ranges());
    moment.lacks_shared = shared->is_incomplete();
    if (moment.lacks_shared) {
        room->tell(fmt::format("process {}: {}", pid.value(), kUnreadSharedText));
    }
    MemoryWithSharedParts memory(process.target().memory(), shared.get());
    if (room->memory()) {
        if (room->forks()) {
            auto forked = ForkedMemory::take(process, memory, moment.mappings, searched,
                                             room->wiped(), moment.pages.get(), &*room->memory());
            if (forked) {
                moment.forked = *std::move(forked);
                moment.memory = std::exchange(room->memory(), std::nullopt);
                return moment;
            }
            room->do_not_fork(forked.error());
            if (!room->readable_in_place()) {
                return room->readable_in_place().error();
            }
        }
        moment.pages->keep(ranges_of(searched));
        if (room->memory()->copy(memory, searched, *moment.pages)) {
            moment.memory = std::exchange(room->memory(), std::nullopt);
            return moment;
        }
        room->tell(fmt::format("process {} stands still while its heap is read: it has grown "
                               "beyond what there is room for",
                               pid.value()));
    }
    moment.shared = std::move(shared);
    return moment;
}

void add_places(HeapMoment moment, HeapSnapshot* snapshot) {
    for (const ThreadView& thread : moment.threads) {
        snapshot->thread_list.push_back(
            {thread.tid, RemoteAddr(thread.sp), RemoteAddr(thread.thread_pointer)});
    }
    snapshot->mappings = std::move(moment.mappings);
}

void RoomForCopy::prepare(Tid pid) {
    served_by_itself_ = memory_served_by_itself(pid);
    readable_in_place_ = check_room_for_swapped(pid);
    pid_ = pid;
    if (is_wanted_) {
        // It is to be no burden for whoever shares the machine's memory, or a control group, with
        // us.
        constexpr std::uint64_t kPart = 4;
        memory_ = StoredMemory::reserve(pid, available_memory() / kPart);
        is_wanted_ = false;
        if (!memory_) {
            tell(fmt::format("process {} stands still while its heap is read: there is no room "
                             "for a copy of its memory",
                             pid.value()));
        }
    }
    forks_ = forks_ && try_read_resident_bytes(pid).value_or(0) >= fork_from_;
    if (forks()) {
        if (auto may = check_copyable(pid); !may) {
            do_not_fork(may.error());
        }
    }
}

Result<void> RoomForCopy::check_readable(HeldProcess& process) const {
    if (!forks() && !readable_in_place_) {
        return readable_in_place_;
    }
    if (served_by_itself_.empty()) {
        return {};
    }
    for (const Tid tid : process.threads()) {
        const auto sp = process.target().stack_pointer(tid);
        const auto is_on = [&sp](const AddrRange& range) {
            return sp && range.contains(sp->value());
        };
        if (std::any_of(served_by_itself_.begin(), served_by_itself_.end(), is_on)) {
            return Error(fmt::format("thread {} has its stack in memory whose pages process {} "
                                     "brings itself (userfaultfd): they cannot be read while it "
                                     "stands still",
                                     tid.value(), process.target().pid().value()));
        }
    }
    return {};
}

void RoomForCopy::do_not_fork(const Error& why) {
    forks_ = false;
    tell(not_forked_text(pid_, why.message()));
}

void RoomForCopy::tell(const std::string& line) {
    if (told_ != nullptr) {
        told_->tell(line);
    } else {
        log_info("{}", line);
    }
}

Result<void> RoomForCopy::complete(HeapMoment* moment) {
    Result<void> read = moment->forked->read(&wiped_, moment->pages.get(), &*moment->memory);
    moment->forked.reset();
    if (read) {
        return read;
    }
    is_wanted_ = true;
    if (read.error().errnum() != EAGAIN) {
        do_not_fork(read.error());
    }
    return Error(read.error().reason(), EAGAIN);
}

} // namespace memleax
