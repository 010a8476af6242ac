// SPDX-License-Identifier: GPL-3.0-or-later
/// What a session is to do.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memleax/allocators/allocator_api.hpp"
#include "memleax/engine/watch.hpp"
#include "memleax/report/report_writer.hpp"
#include "memleax/session/threshold.hpp"

namespace memleax {

/// What error_exitcode tells of, from the narrowest to the widest.
enum class ErrorsFor : std::uint8_t {
    lost,    ///< a block that is definitely lost, with leak_check
    leaking, ///< a call stack whose verdict is that
    suspect, ///< and those with expired blocks whose verdict is no all-clear (see is_suspect())
    expired  ///< any expired block that is still there
};

/// How a look at the heap takes its picture of the process (docs/reachability.md).
enum class SnapshotWay : std::uint8_t {
    automatic, ///< as `fork`, but for a small process, of which a copy takes no longer
    fork,      ///< a forked copy of it is read; where that might do harm, as `copy`
    copy       ///< it stands still while its memory is copied, or read where there is no room
};

/// What follows the engine's name where it is printed: ", unwinder libunwind"; "" for our own.
std::string unwinder_text(UnwinderChoice unwinder);

struct SessionOptions {
    std::vector<int> pids;            ///< watch these processes,
    std::vector<std::string> names;   ///< and those of such names (ProcessName), or
    std::vector<std::string> command; ///< start this program and watch it
    std::optional<int> ns_pid; ///< that one of the PID namespace that the one of `pids` is in
    bool children = false;     ///< and their children that are there
    bool follow_forks = false;
    /// What is watched: known allocators, and those that the user has named.
    std::shared_ptr<const AllocatorApi> allocators = std::make_shared<const AllocatorApi>();
    EngineChoice engine = EngineChoice::automatic;
    UnwinderChoice unwinder = UnwinderChoice::own; ///< another one goes with the engine int3 only
    bool check = false; ///< look for frees that are wrong, at the cost of a stack walk for each
    double expire_s = 10;
    std::optional<double> time_s; ///< leave after that long; counted from "watching"
    unsigned backtrace_limit = 50;
    std::uint64_t memory_block_max = 0; ///< 0: no limit
    std::uint64_t call_stack_max = 0;   ///< 0: no limit
    std::string debug_info;
    std::vector<std::string> debug_folders;
    std::string output;                                   ///< "": stdout
    const ReportFormat* format = report_formats().data(); ///< text
    bool live_lines = true; ///< where the report is text: lines of blocks that expire
    bool events = false;    ///< print calls that map memory, as they happen
    int error_exitcode = 0; ///< 0: none
    ErrorsFor errors_for = ErrorsFor::suspect;
    NameStyle name_style = NameStyle::folded; ///< in text
    std::vector<std::string> skip;            ///< globs of functions that a stack is not named by
    /// Look at the heap at the end of the watching.
    bool leak_check = false;
    SnapshotWay snapshot = SnapshotWay::automatic;
    /// Save a report when one of these is passed.
    std::vector<MemoryThreshold> at_memory;
    std::optional<PressureThreshold> at_pressure;
    std::string at_output; ///< the name of these reports; "": see ThresholdReports
};

} // namespace memleax
