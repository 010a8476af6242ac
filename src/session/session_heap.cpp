// SPDX-License-Identifier: GPL-3.0-or-later
// Looks at the heaps of processes that are being watched.
#include <utility>

#include <fmt/format.h>

#include "memleax/base/log.hpp"
#include "memleax/session/session.hpp"

namespace memleax {

Result<HeapView*> Session::look_at_heap(ProcessAccount& process) {
    const auto failed = [&process](Error why) {
        process.set_heap_problem(why.message());
        return why;
    };
    if (phase_ != Phase::watching || process.facts().ended) {
        return failed(Error(
            fmt::format("the heap of process {} cannot be looked at: {}", process.pid().value(),
                        process.facts().ended ? "it has ended" : "it is not being watched now")));
    }
    auto snapshot = take_heap_snapshot(
        [&](TargetState state, const TargetWork& work) {
            return watcher_.perform(process.pid(), state, work);
        },
        {.details = true});
    if (!snapshot) {
        return failed(std::move(snapshot).error());
    }
    if (!snapshot->complete) {
        return failed(Error(fmt::format("the heap of process {} cannot be read whole: {}",
                                        process.pid().value(), snapshot->why)));
    }
    bring_up_to_date();
    process.set_heap_problem("");
    process.set_heap(std::make_unique<HeapView>(*std::move(snapshot), process.pid(),
                                                process.tracker(), process.names()));
    return process.heap();
}

void Session::look_at_heaps() {
    if (!options_.leak_check || std::exchange(has_looked_at_heaps_, true)) {
        return;
    }
    for (ProcessAccount* process : accounts_.all()) {
        if (const auto looked = look_at_heap(*process); !looked) {
            log_warning("{}", looked.error().message());
        }
    }
}

} // namespace memleax
