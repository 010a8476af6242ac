// SPDX-License-Identifier: GPL-3.0-or-later
/// The report as a model, and its writers. All numbers are exact.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "memleax/allocation_event.hpp"
#include "memleax/block_count.hpp"
#include "memleax/source_frame.hpp"

namespace memleax {

/// Seconds that the blocks of a call stack lived until they were freed.
struct FreedLifetime {
    double min_s = 0;
    double mean_s = 0;
    double max_s = 0;
};

struct CallStackReport {
    std::uint64_t id = 0; ///< as in the live lines
    BlockCount alloc;
    BlockCount free;
    BlockCount live;
    BlockCount expired;                          ///< ever
    BlockCount free_expired;                     ///< of those, freed afterwards
    std::optional<FreedLifetime> freed_lifetime; ///< absent: none was freed
    std::optional<double> oldest_live_s;         ///< absent: none is live
    std::vector<SourceFrame> frames;             ///< innermost first
    StackEnd end = StackEnd::outermost;

    /// Expired and still there.
    [[nodiscard]] BlockCount may_leak() const { return expired - free_expired; }
};

struct Report {
    struct Target {
        std::int64_t pid = 0;
        std::string exe;
        std::string arch;
        std::uint64_t threads = 0;
    };
    /// See EventCounts in tracker.hpp.
    struct Events {
        std::uint64_t alloc = 0;
        std::uint64_t free = 0;
        std::uint64_t realloc = 0;
        std::uint64_t failed_alloc = 0;
        std::uint64_t unknown_free = 0;
        std::uint64_t double_free = 0;
    };
    struct Session {
        std::string engine;
        double duration_s = 0;
        double expire_s = 0;
        std::string end_reason; ///< time, user, target-exit or limit
        Events events;
    };
    struct Totals {
        BlockCount live;
        BlockCount expired; ///< and still there
    };

    std::string version;
    Target target;
    Session session;
    Totals totals;
    std::vector<CallStackReport> callstacks; ///< with live or expired blocks; most leaked last
};

/// For people: call stacks with expired blocks that are still there, most leaked bytes last.
std::string text_report(const Report& report);
/// For programs: one JSON document, with every call stack of the model.
std::string json_report(const Report& report);

/// A backtrace, a line for each frame, indented by `indent` blanks.
std::string backtrace_text(const std::vector<SourceFrame>& frames, StackEnd end, unsigned indent);

} // namespace memleax
