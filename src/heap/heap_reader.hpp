// SPDX-License-Identifier: GPL-3.0-or-later
/// Reads the heap of a process that stands still.
#pragma once

#include <vector>

#include "glibc_places.hpp"
#include "held_process.hpp"
#include "memleax/base/error.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/modules.hpp"
#include "thread_view.hpp"

namespace memleax {

/// What one look at a process has come to.
struct HeapLook {
    bool was_busy = false; ///< a thread was at work in the allocator
    HeapSnapshot snapshot;
};

class HeapReader {
  public:
    /// The modules, which must outlive this, are known. Nobody need stand still.
    static Result<HeapReader> make(const ModuleMap& modules, const HeapOptions& options);

    /// `own_memory` is ours: no heap of the program's, and no root.
    Result<HeapLook> look_at(HeldProcess& process, std::vector<AddrRange> own_memory);

  private:
    HeapReader(const ModuleMap& modules, const Module& libc, const HeapOptions& options)
        : modules_(&modules), libc_(&libc), options_(options) {}
    Result<std::vector<ThreadView>> leave_malloc(HeldProcess& process, const GlibcPlaces& places);

    const ModuleMap* modules_;
    const Module* libc_;
    HeapOptions options_;
};

} // namespace memleax
