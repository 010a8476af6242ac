// SPDX-License-Identifier: GPL-3.0-or-later
#include "heap_look.hpp"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/process_memory.hpp"
#include "tracked_blocks.hpp"

namespace memleax {

namespace {

/// Up to here a copy takes no longer than a fork and what is around it (docs/reachability.md).
constexpr std::uint64_t kBytesWorthAFork = 8U << 20;

/// Of a process that is being watched. With a copy of it each page that it writes to would be one
/// more fault of its own.
HeapOptions watched_heap_options(const SessionOptions& options, ProcessAccount& process) {
    HeapOptions result = heap_options(options);
    result.told = &process.told_of_looks();
    result.told->begin_look();
    result.link_words = true;
    if (result.forks && options.allocators->tracked().faults) {
        result.forks = false;
        if (try_read_resident_bytes(process.pid()).value_or(0) >= result.fork_from) {
            result.told->tell(not_forked_text(
                process.pid(), "that would make page faults, and those are tracked"));
        }
    }
    return result;
}

Result<HeapSnapshot> look_at_watched_blocks(SharedTracker& tracker, Watcher& watcher,
                                            const PerformRequest& perform,
                                            const HeapOptions& options, std::string unlisted) {
    watcher.bring_up_to_date();
    const TrackedBlocks tracked(tracker);
    auto snapshot = take_tracked_snapshot(perform, tracked.blocks(), options);
    if (!snapshot) {
        return snapshot;
    }
    snapshot->unlisted = std::move(unlisted);
    if (!snapshot->complete) {
        return snapshot;
    }
    constexpr int kMostTries = 8; // each may wait for half a second
    for (int i = 0; i < kMostTries; ++i) {
        watcher.bring_up_to_date();
        if (tracked.drop_ended(&*snapshot)) {
            return snapshot;
        }
    }
    return Error("what the process has allocated and freed comes too late to be compared with its "
                 "memory");
}

} // namespace

HeapOptions heap_options(const SessionOptions& options) {
    return {.details = true,
            .forks = options.snapshot != SnapshotWay::copy,
            .fork_from = options.snapshot == SnapshotWay::automatic ? kBytesWorthAFork : 0};
}

Result<HeapView*> look_at_heap(ProcessAccount& process, Watcher& watcher,
                               const SessionOptions& options, bool is_watching) {
    const auto failed = [&process](Error why) {
        process.set_heap_problem(why.message());
        return why;
    };
    if (!is_watching || process.facts().ended) {
        return failed(Error(
            fmt::format("the heap of process {} cannot be looked at: {}", process.pid().value(),
                        process.facts().ended ? "it has ended" : "it is not being watched now")));
    }
    const PerformRequest perform = [&](TargetState state, const TargetWork& work) {
        return watcher.perform(process.pid(), state, work);
    };
    const HeapOptions how = watched_heap_options(options, process);
    auto snapshot = take_heap_snapshot(perform, how);
    if (snapshot && !snapshot->unlisted.empty()) {
        snapshot = look_at_watched_blocks(process.tracker(), watcher, perform, how,
                                          std::move(snapshot->unlisted));
    }
    if (!snapshot) {
        return failed(std::move(snapshot).error());
    }
    if (!snapshot->complete) {
        return failed(Error(fmt::format("the heap of process {} cannot be read whole: {}",
                                        process.pid().value(), snapshot->why)));
    }
    watcher.bring_up_to_date();
    if (snapshot->unlisted.empty()) {
        // Another allocator's, by a prefix or the user's names, or a pool's within malloc's blocks.
        const std::size_t others = count_unlisted(process.tracker(), *snapshot);
        if (others > snapshot->threads) {
            snapshot =
                look_at_watched_blocks(process.tracker(), watcher, perform, how,
                                       fmt::format("{} of them are not the C library's", others));
            if (!snapshot) {
                return failed(std::move(snapshot).error());
            }
        }
    }
    process.set_heap_problem("");
    process.set_heap(std::make_unique<HeapView>(*std::move(snapshot), process.pid(),
                                                process.tracker(), process.names()));
    return process.heap();
}

} // namespace memleax
