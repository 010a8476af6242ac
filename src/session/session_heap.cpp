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

void Session::add_leak_check(ProcessAccount& process, Report* report) {
    const bool is_tried = options_.leak_check && has_looked_at_heaps_;
    if (process.heap() == nullptr && !is_tried) {
        return;
    }
    const auto index = static_cast<std::uint32_t>(report->processes.size() - 1);
    LeakFindings found;
    if (process.heap() != nullptr && process.heap_problem().empty()) {
        found = process.heap()->findings(index);
    } else {
        found.why = process.heap_problem();
    }
    if (!report->leak_check) {
        report->leak_check = std::move(found);
        return;
    }
    LeakFindings& all = *report->leak_check;
    all.pause_s += found.pause_s;
    if (!found.complete && all.complete) {
        all.why = found.why;
    }
    all.complete = all.complete && found.complete;
    for (std::size_t i = 0; i < all.totals.size(); ++i) {
        all.totals.at(i) = all.totals.at(i) + found.totals.at(i);
    }
    all.records.insert(all.records.end(), std::make_move_iterator(found.records.begin()),
                       std::make_move_iterator(found.records.end()));
}

} // namespace memleax
