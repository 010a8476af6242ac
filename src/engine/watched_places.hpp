// SPDX-License-Identifier: GPL-3.0-or-later
/// What is to be watched in some modules.
#pragma once

#include <memory>
#include <vector>

#include "memleax/allocators/allocator_search.hpp"
#include "memleax/proc/modules.hpp"

namespace memleax {

struct WatchedPlaces {
    std::vector<AllocatorEntry> functions; ///< in the order in which they are to be watched
    std::vector<AllocatorEntry> untold;    ///< known by their code only (AllocatorApi::traps)
    std::vector<CodeAddr> module_events;
    std::vector<SignalActionEntry> signal_actions;
    std::vector<CodeAddr> last_calls; ///< see ModulePlaces
    std::vector<ProbePlace> probes;   ///< likewise
    bool has_leak_sanitizer = false;
};

/// By a walk over their symbols, which takes milliseconds in a large program.
WatchedPlaces find_places(AllocatorSearch& search, const ModuleMap& map,
                          const std::vector<std::shared_ptr<const Module>>& modules);

} // namespace memleax
