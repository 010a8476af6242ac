// SPDX-License-Identifier: GPL-3.0-or-later
/// The engine that works by breakpoints: an int3 (BRK on arm64) at every allocator entry point and
/// at every return address from one.
#pragma once

#include <memory>

#include "memleax/allocation_event.hpp"
#include "memleax/allocator_search.hpp"
#include "memleax/engine.hpp"
#include "memleax/modules.hpp"
#include "memleax/target.hpp"

namespace memleax {

struct Int3Options {
    unsigned backtrace_limit = 50; ///< frames of a stack, 1 to 256
};

/// All references must outlive the engine, and everything happens in the tracer thread. The target
/// is seized, or launched and at its ExecStop; `modules` has been refreshed for a seized one.
std::unique_ptr<Engine> make_int3_engine(Target& target, ModuleMap& modules, EventSink& sink,
                                         EngineObserver& observer, AllocatorSearch& search,
                                         const Int3Options& options);

} // namespace memleax
