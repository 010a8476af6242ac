// SPDX-License-Identifier: GPL-3.0-or-later
/// The engine that works by breakpoints: an int3 (BRK on arm64) at every allocator entry point and
/// at every return address from one.
#pragma once

#include <memory>

#include "memleax/allocators/allocator_search.hpp"
#include "memleax/engine/engine.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

struct Int3Options {
    unsigned backtrace_limit = 50; ///< frames of a stack, 1 to 256
    bool check = false; ///< ends of blocks come with their stacks, and with what is wrong with them
};

/// All references must outlive the engine, and everything happens in the tracer thread. The target
/// is seized, or launched and at its ExecStop; `modules` has been refreshed for a seized one.
std::unique_ptr<Engine> make_int3_engine(Target& target, ModuleMap& modules, EventSink& sink,
                                         EngineObserver& observer, AllocatorSearch& search,
                                         const Int3Options& options);

} // namespace memleax
