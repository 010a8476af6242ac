// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/probe_view.hpp"

#include <algorithm>
#include <optional>
#include <utility>

namespace memleax {

void add_probes(ProcessAccount& process, std::uint32_t index, const StackFilter& filter,
                std::vector<ProbeReport>* report) {
    for (std::size_t number = 0;; ++number) { // one at a time: whoever feeds it does not wait long
        auto calls = process.tracker().with([number](Tracker& tracker) {
            const auto& all = tracker.probes().probes();
            return number < all.size() ? std::optional(all[number]) : std::nullopt;
        });
        if (!calls) {
            return;
        }
        ProbeReport probe{.process = index,
                          .name = std::move(calls->name),
                          .calls = calls->calls,
                          .stacks = {},
                          .arguments = std::move(calls->arguments),
                          .other_arguments = calls->other_arguments};
        for (const ProbeCalls::Stack& each : calls->stacks) {
            ProbeReport::Stack stack{each.calls, {}, StackEnd::bad_memory};
            if (each.stack != kNoStack) {
                stack.frames = process.names().resolve(each.stack);
                stack.end = process.names().end(each.stack);
            }
            if (filter.shows(stack.frames)) {
                probe.stacks.push_back(std::move(stack));
            }
        }
        std::stable_sort(probe.stacks.begin(), probe.stacks.end(),
                         [](const auto& a, const auto& b) { return a.calls < b.calls; });
        std::stable_sort(probe.arguments.begin(), probe.arguments.end(),
                         [](const auto& a, const auto& b) { return a.calls > b.calls; });
        report->push_back(std::move(probe));
    }
}

} // namespace memleax
