// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/fault_view.hpp"

#include <algorithm>

#include <unistd.h>

#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/process_memory.hpp"

namespace memleax {

namespace {

struct Copied {
    StackFaults faults;
    StackEnd end;
    std::uint64_t pages; ///< still there
};

std::uint64_t page_size() {
    static const auto size = static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    return size;
}

/// What the kernel has now, unless the watching or the process has ended.
std::optional<ResidentMemory> kernels_memory(const ProcessAccount& process,
                                             const StillThere& still) {
    if (still.now || process.facts().ended) {
        return still.now;
    }
    auto memory = try_read_resident_memory(living_thread(process.pid()));
    if (memory && still.before) { // what it needs is mostly there at the begin
        memory->own = still.before->own + still.own * page_size();
    }
    return memory;
}

void add_resident(ProcessAccount& process, const StillThere& still, std::uint64_t lost,
                  PageFaultReport* report) {
    const ResidentReport resident{.ours = still.pages * page_size(),
                                  .untold = still.untold,
                                  .lost = lost,
                                  .before = still.before,
                                  .kernel = kernels_memory(process, still)};
    report->resident = report->resident ? *report->resident + resident : resident;
    report->resident_of_processes.back() = resident;
}

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
                copied.push_back({stacks[i],
                                  id == kNoStack ? StackEnd::bad_memory : tracker.stacks().end(id),
                                  tracker.faults().pages_of(i)});
            }
            return is_more;
        });
    }
    return copied;
}

} // namespace

void add_page_faults(ProcessAccount& process, std::uint32_t index, const StackFilter& filter,
                     PageFaultReport* report) {
    const auto still =
        process.tracker().with([](Tracker& tracker) { return tracker.faults().still_there(); });
    for (Copied& each : copy_stacks(process.tracker())) {
        FaultStackReport stack{.process = index,
                               .minor = each.faults.minor,
                               .major = each.faults.major,
                               .touched = std::move(each.faults.touched),
                               .still_bytes =
                                   still ? std::optional(each.pages * page_size()) : std::nullopt,
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
    report->resident_of_processes.emplace_back(); // it stays so for one that was not watched
    if (still) {
        add_resident(process, *still, totals.lost, report);
    }
}

} // namespace memleax
