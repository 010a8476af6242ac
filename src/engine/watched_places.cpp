// SPDX-License-Identifier: GPL-3.0-or-later
#include "watched_places.hpp"

#include <algorithm>

#include "memleax/base/log.hpp"

namespace memleax {

WatchedPlaces find_places(AllocatorSearch& search, const ModuleMap& map,
                          const std::vector<std::shared_ptr<const Module>>& modules) {
    WatchedPlaces places;
    for (const auto& module : modules) {
        if (!module->image) {
            log_debug("{}: {}", module->name, module->problem);
        }
        const auto found = search.find(*module, module.get() == map.main());
        for (const AllocatorEntry& entry : found.entries) {
            const bool traps = search.api()->traps(*entry.function);
            (traps ? places.functions : places.untold).push_back(entry);
        }
        if (found.module_event) {
            places.module_events.push_back(*found.module_event);
        }
        places.signal_actions.insert(places.signal_actions.end(), found.signal_actions.begin(),
                                     found.signal_actions.end());
        places.last_calls.insert(places.last_calls.end(), found.last_calls.begin(),
                                 found.last_calls.end());
        places.probes.insert(places.probes.end(), found.probes.begin(), found.probes.end());
        places.has_leak_sanitizer = places.has_leak_sanitizer || found.is_leak_sanitizer;
        for (const std::string_view name : found.chosen_at_run_time) {
            log_warning("{} in {} is chosen at run time (IFUNC) and is not watched", name,
                        module->name);
        }
    }
    std::stable_sort(
        places.functions.begin(), places.functions.end(),
        [](const auto& a, const auto& b) { return a.function->call < b.function->call; });
    return places;
}

} // namespace memleax
