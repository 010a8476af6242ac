// SPDX-License-Identifier: GPL-3.0-or-later
#include "heap_look.hpp"

#include <memory>
#include <utility>

#include <fmt/format.h>

#include "memleax/heap/heap_snapshot.hpp"

namespace memleax {

Result<HeapView*> look_at_heap(ProcessAccount& process, Watcher& watcher, bool is_watching) {
    const auto failed = [&process](Error why) {
        process.set_heap_problem(why.message());
        return why;
    };
    if (!is_watching || process.facts().ended) {
        return failed(Error(
            fmt::format("the heap of process {} cannot be looked at: {}", process.pid().value(),
                        process.facts().ended ? "it has ended" : "it is not being watched now")));
    }
    auto snapshot = take_heap_snapshot(
        [&](TargetState state, const TargetWork& work) {
            return watcher.perform(process.pid(), state, work);
        },
        {.details = true});
    if (!snapshot) {
        return failed(std::move(snapshot).error());
    }
    if (!snapshot->complete) {
        return failed(Error(fmt::format("the heap of process {} cannot be read whole: {}",
                                        process.pid().value(), snapshot->why)));
    }
    watcher.bring_up_to_date();
    process.set_heap_problem("");
    process.set_heap(std::make_unique<HeapView>(*std::move(snapshot), process.pid(),
                                                process.tracker(), process.names()));
    return process.heap();
}

} // namespace memleax
