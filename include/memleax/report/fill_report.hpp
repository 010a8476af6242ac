// SPDX-License-Identifier: GPL-3.0-or-later
/// From the tracker's snapshot to the report's model.
#pragma once

#include <functional>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/events/source_frame.hpp"
#include "memleax/report/report.hpp"
#include "memleax/report/wrappers.hpp"
#include "memleax/track/tracker_snapshot.hpp"

namespace memleax {

/// Turns a stack into what people read. May be slow; is called once for each stack.
using StackResolver = std::function<Backtrace(StackId)>;
/// Is this one to be in the report?
using StackChoice = std::function<bool(const Backtrace&)>;

/// Of a look at the heap.
using StackFindings = absl::flat_hash_map<StackId, StackFinding>;

/// Adds the counts of a process, the last of report->processes, to `report`, and every call stack
/// that the snapshot has, behind those of others. Ages are those at the snapshot's time;
/// times of intervals count from `begin`. The totals are of all call stacks, chosen or not.
/// Call stacks are not named by `wrappers`.
void fill_report(const TrackerSnapshot& snapshot, MonotonicNs begin, const StackResolver& resolve,
                 const StackChoice& shows, const Wrappers& wrappers, Report* report,
                 const StackFindings& findings = {});

/// Call stacks in the order that a Report promises. To be called once, when all processes have been
/// added: there may be thousands, each with its call stacks.
void sort_report(Report* report);

/// Of the last process: what is mapped, and how much of it nobody that we saw has mapped.
void add_mapped(const MappedTotals& seen, std::optional<std::uint64_t> unexplained, Report* report);

} // namespace memleax
