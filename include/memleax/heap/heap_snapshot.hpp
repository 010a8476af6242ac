// SPDX-License-Identifier: GPL-3.0-or-later
/// The heap of a running process at one moment, read from outside: all threads are stopped, memory
/// is read, all go on. Nothing is written to the process, and none of its threads executes anything
/// for us.
#pragma once

#include <cstdint>
#include <string>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/heap/heap_graph.hpp"

namespace memleax {

struct HeapSnapshot {
    /// Does all that the allocator has written down agree? Otherwise the graph is empty.
    bool complete = false;
    std::string why; ///< it is not; "" if it is
    HeapGraph graph;
    std::int64_t pause_ns = 0; ///< for which the process stood still, in the attempt that counts
    std::size_t threads = 0;
};

/// For x86_64 and glibc's malloc (src/heap/glibc_layout.hpp has the versions), and nothing else: an
/// Error says why there is no snapshot, with the process as it was. What does not agree, as a
/// thread was at work in the allocator, is looked at anew. check_watchable() comes before.
Result<HeapSnapshot> take_heap_snapshot(Tid pid);

} // namespace memleax
