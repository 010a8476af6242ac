// SPDX-License-Identifier: GPL-3.0-or-later
/// The heap of a running process at one moment, read from outside: all threads are stopped, memory
/// is read, all go on. Nothing is written to the process, and none of its threads executes anything
/// for us, unless it is to be forked (HeapOptions::forks).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/heap/heap_graph.hpp"
#include "memleax/heap/told_of_looks.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/supervise/target_request.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

/// A thread at that moment.
struct HeapThread {
    Tid tid;
    RemoteAddr sp;
    RemoteAddr thread_pointer;
};

struct HeapSnapshot {
    /// Does all that the allocator has written down agree? Otherwise the graph is empty.
    bool complete = false;
    std::string why; ///< it is not; "" if it is
    /// Why the heap cannot be listed at all, as its allocator is none that we know, for the user.
    /// "": it has been, or that was tried.
    std::string unlisted;
    HeapGraph graph;
    bool forked = false;       ///< the process was forked, and not copied while it stood still
    std::int64_t pause_ns = 0; ///< for which the process stood still, in the attempt that counts
    std::size_t threads = 0;
    MonotonicNs time;                    ///< at which it is true
    std::vector<HeapThread> thread_list; ///< with HeapOptions::details, as is
    std::vector<Mapping> mappings;
};

/// Whoever puts a process back as it was, should we die while something in it is changed.
class Caretaker {
  public:
    virtual ~Caretaker() = default;
    /// From the return of this on, until leave_duty() or the end of the calling thread, the tracer.
    /// Null: nobody is there.
    virtual RecoveryFile* take_duty() = 0;
    /// By the same thread.
    virtual void leave_duty() = 0;
};

struct HeapOptions {
    bool details = false;    ///< fill in HeapGraph::details, but for ...
    bool link_words = false; ///< ... its link_words, at 4 bytes a link
    /// The process stands still while its heap is read, not only while its memory is copied.
    bool in_place = false;
    /// It stands still while it is forked, and its memory is copied from the child, where that can
    /// be done without harm. One of its threads executes clone(2) for us, and later wait4(2).
    bool forks = false;
    std::uint64_t fork_from = 0;    ///< bytes; a process that has less in memory is copied at once
    Caretaker* caretaker = nullptr; ///< with `forks`, of a process that nobody watches
    ToldOfLooks* told = nullptr;    ///< null: there is one look only
};

/// For the malloc of glibc and of musl (src/heap/*_layout.hpp have the versions), only:
/// an Error says why there is no snapshot, with the process as it was. What does not agree, as a
/// thread was at work in the allocator, is looked at anew. check_watchable() comes before.
Result<HeapSnapshot> take_heap_snapshot(Tid pid, const HeapOptions& options = {});

/// Of a process that is being watched: by requests to the tracer, with everything of ours left in
/// place; that memory is neither the program's heap nor a root. Called in any other thread.
using PerformRequest = std::function<Result<void>(TargetState, const TargetWork&)>;
/// Where the allocator is none that we know, there is a snapshot that is not complete and says so
/// (HeapSnapshot::unlisted).
Result<HeapSnapshot> take_heap_snapshot(const PerformRequest& perform,
                                        const HeapOptions& options = {});

/// Likewise, of these blocks only, whatever the allocator: they ascend, do not overlap, and have
/// begun before. All other memory of the process that is its own, or shared, is a root. So is what
/// the allocator has written down, and what others have freed: a lost block may be overlooked, and
/// none that is reachable is called lost if it was live at the snapshot's time. Whether it was, the
/// caller finds out (drop_blocks()).
Result<HeapSnapshot> take_tracked_snapshot(const PerformRequest& perform, HeapBlocks blocks,
                                           const HeapOptions& options = {});

} // namespace memleax
