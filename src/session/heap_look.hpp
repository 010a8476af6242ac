// SPDX-License-Identifier: GPL-3.0-or-later
/// The heap of a process while it is being watched, from a snapshot of its memory.
#pragma once

#include "memleax/base/error.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/session/heap_view.hpp"
#include "memleax/session/process_account.hpp"
#include "memleax/session/session_options.hpp"
#include "memleax/session/watcher.hpp"

namespace memleax {

/// Takes a snapshot, and leaves what is found in the account (ProcessAccount::heap()), as what kept
/// it from that (set_heap_problem()). An Error says why there is nothing new.
Result<HeapView*> look_at_heap(ProcessAccount& process, Watcher& watcher,
                               const SessionOptions& options, bool is_watching);

/// How the picture of a process is to be taken.
HeapOptions heap_options(const SessionOptions& options);

} // namespace memleax
