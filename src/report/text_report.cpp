// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>

#include <fmt/format.h>

#include "memleax/live_lines.hpp"
#include "memleax/report.hpp"

namespace memleax {

namespace {

std::string count_text(BlockCount count) {
    return fmt::format("{} ({} bytes)", count.blocks, count.bytes);
}

std::string call_stack_text(const CallStackReport& stack) {
    const FreedLifetime freed = stack.freed_lifetime.value_or(FreedLifetime{});
    std::string text =
        fmt::format("CallStack[{}]: may-leak={}\n", stack.id, count_text(stack.may_leak()));
    text += fmt::format("    expired={}, free_expired={}\n", count_text(stack.expired),
                        count_text(stack.free_expired));
    text += fmt::format("    alloc={}, free={}\n", count_text(stack.alloc), count_text(stack.free));
    text += fmt::format("    freed memory live time: min={} max={} average={}\n",
                        seconds_text(freed.min_s), seconds_text(freed.max_s),
                        seconds_text(freed.mean_s));
    text += fmt::format("    un-freed memory live time: max={}\n",
                        seconds_text(stack.oldest_live_s.value_or(0)));
    return text + backtrace_text(stack.frames, stack.end, 8) + "\n";
}

const char* why(const std::string& end_reason) {
    if (end_reason == "time") {
        return "the time is up";
    }
    if (end_reason == "target-exit") {
        return "the process has ended";
    }
    if (end_reason == "limit") {
        return "a limit is reached";
    }
    return "ended by the user";
}

} // namespace

std::string text_report(const Report& report) {
    std::string stacks;
    std::size_t shown = 0;
    for (const CallStackReport& stack : report.callstacks) {
        if (stack.may_leak().blocks > 0) {
            stacks += call_stack_text(stack);
            ++shown;
        }
    }
    const Report::Session& session = report.session;
    std::string text =
        fmt::format("\n== Watched {} ({}) for {} seconds; {}.\n", report.target.pid,
                    report.target.exe, seconds_text(session.duration_s), why(session.end_reason));
    if (shown == 0) {
        text += "== No expired memory blocks.\n";
    } else {
        text += "== Callstack statistics: (in ascending order)\n\n" + stacks;
    }
    const Report::Events& events = session.events;
    text += fmt::format(
        "== {} call stack{} may leak {} in {} block{} that lived longer than {} seconds.\n", shown,
        shown == 1 ? "" : "s", fmt::format("{} bytes", report.totals.expired.bytes),
        report.totals.expired.blocks, report.totals.expired.blocks == 1 ? "" : "s",
        seconds_text(session.expire_s));
    text +=
        fmt::format("== Seen: {} allocations, {} frees, {} reallocations; {} failed, {} frees of "
                    "unknown blocks, {} double frees; {} live.\n",
                    events.alloc, events.free, events.realloc, events.failed_alloc,
                    events.unknown_free, events.double_free, count_text(report.totals.live));
    return text;
}

} // namespace memleax
