// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/fault_view.hpp"

#include <algorithm>
#include <tuple>

namespace memleax {

namespace {

struct Copied {
    StackFaults faults;
    StackEnd end;
};

/// Piece by piece: whoever feeds the account does not wait long.
std::vector<Copied> copy_stacks(SharedTracker& shared) {
    constexpr std::size_t kStacksAtOnce = 256;
    std::vector<Copied> copied;
    for (bool any = true; any;) {
        any = shared.with([&copied](Tracker& tracker) {
            const std::vector<StackFaults>& stacks = tracker.faults().stacks();
            const std::size_t end = std::min(copied.size() + kStacksAtOnce, stacks.size());
            const bool is_more = copied.size() < end;
            for (std::size_t i = copied.size(); i < end; ++i) {
                const StackId id = stacks[i].stack;
                copied.push_back(
                    {stacks[i], id == kNoStack ? StackEnd::bad_memory : tracker.stacks().end(id)});
            }
            return is_more;
        });
    }
    return copied;
}

} // namespace

void add_page_faults(ProcessAccount& process, std::uint32_t index, const StackFilter& filter,
                     PageFaultReport* report) {
    for (Copied& each : copy_stacks(process.tracker())) {
        FaultStackReport stack{.process = index,
                               .minor = each.faults.minor,
                               .major = each.faults.major,
                               .touched = std::move(each.faults.touched),
                               .frames = {},
                               .end = each.end};
        if (each.faults.stack != kNoStack) {
            stack.frames = process.names().resolve(each.faults.stack);
        }
        if (filter.shows(stack.frames)) {
            std::stable_sort(stack.touched.begin(), stack.touched.end(),
                             [](const auto& a, const auto& b) { return a.all() > b.all(); });
            report->stacks.push_back(std::move(stack));
        }
    }
    // After the stacks: they never add up to more.
    const FaultTotals totals =
        process.tracker().with([](Tracker& tracker) { return tracker.faults().totals(); });
    report->totals = report->totals + totals;
    report->processes.push_back(totals);
    std::stable_sort(report->stacks.begin(), report->stacks.end(),
                     [](const FaultStackReport& a, const FaultStackReport& b) {
                         return std::tuple(a.minor + a.major, a.major) <
                                std::tuple(b.minor + b.major, b.major);
                     });
}

} // namespace memleax
