// SPDX-License-Identifier: GPL-3.0-or-later
/// A report that the tests of both writers print.
#pragma once

#include <utility>

#include "memleax/report/report_writer.hpp"

namespace memleax {

inline SourceFrame frame(std::uint64_t pc, std::string module = "", std::string function = "",
                         std::optional<std::uint64_t> offset = {}, std::string file = "",
                         unsigned line = 0, bool inlined = false) {
    return {CodeAddr(pc),
            std::move(module),
            std::move(function),
            offset,
            std::nullopt,
            std::move(file),
            line,
            inlined};
}

/// The two frames of the man page.
inline Backtrace small_stack() {
    return {frame(0x00007fd322bd8220, "libc.so.6", "malloc", 0),
            frame(0x40084e, "test", "foo", 14, "foo.c", 12)};
}

/// The whole text that a writer makes of a report.
inline std::string text_of(ReportWriter write, const Report& report) {
    StringSink sink;
    write(report, sink);
    return sink.text;
}

/// Changes one frame of a backtrace, each of whose frames is a machine frame.
template <class Change> void change_frame(Backtrace& backtrace, std::size_t index, Change change) {
    auto frames = std::vector<ResolvedFrame>(backtrace.machine_frames().begin(),
                                             backtrace.machine_frames().end());
    SourceFrame changed = frames.at(index)->at(0);
    change(changed);
    frames[index] = std::make_shared<const std::vector<SourceFrame>>(1, changed);
    backtrace = Backtrace(std::move(frames));
}

inline Judgement judged(Verdict verdict, Reason reason, double blocks_per_s = 0,
                        double bytes_per_s = 0) {
    return {verdict, 0, reason, blocks_per_s, bytes_per_s};
}

/// Three call stacks: live only, leaking a little without a backtrace, leaking.
inline Report sample_report() {
    Report report;
    report.version = "2.0.0";
    report.target = {4711, "/usr/bin/test", "x86_64", 5};
    report.session.engine = "int3";
    report.session.duration_s = 12.345;
    report.session.expire_s = 10;
    report.session.end_reason = "time";
    report.session.events = {.alloc = 1001,
                             .free = 1,
                             .realloc = 2,
                             .failed_alloc = 3,
                             .unknown_free = 4,
                             .double_free = 1};
    report.totals.live = {22, 2125};
    report.totals.expired = {21, 2025};

    CallStackReport live;
    live.id = 9;
    live.alloc = live.live = {1, 100};
    live.oldest_live_s = 0.5;
    live.frames = small_stack();

    CallStackReport cache;
    cache.id = 7;
    cache.alloc = {9, 90};
    cache.free = {8, 85};
    cache.live = {1, 5};
    cache.expired = {3, 30};
    cache.free_expired = {2, 25};
    cache.freed_lifetime = FreedLifetime{0.5, 2.25, 11};
    cache.oldest_live_s = 12.5;
    cache.end = StackEnd::no_rule;

    CallStackReport leak;
    leak.id = 3;
    leak.alloc = leak.live = leak.expired = {20, 2020};
    leak.oldest_live_s = 20;
    leak.frames = small_stack();

    report.callstacks = {live, cache, leak};
    return report;
}

/// Leak checks of two processes, with a lost block each; without one of the second if that could
/// not be looked at.
inline Report leak_checks_of_two(bool is_second_complete) {
    Report report;
    report.follows_forks = true;
    report.processes.resize(2);
    LeakFindings& all = report.leak_check.emplace();
    for (std::uint32_t i = 0; i < 2; ++i) {
        Report::Process& process = report.processes[i];
        process.pid = 7 + i;
        process.comm = i == 0 ? "server" : "worker";
        process.exe = "/bin/" + process.comm;
        process.leak_check.emplace().complete = i == 0 || is_second_complete;
        process.leak_check->why = process.leak_check->complete ? "" : "it has ended";
        process.leak_check->pause_s = 0.001 * (i + 1);
        if (process.leak_check->complete) {
            process.leak_check->totals[0] = {1, 100 + i};
            LeakRecord record;
            record.size = 100 + i;
            record.count = {1, 100 + i};
            record.addresses = {RemoteAddr(0x10)};
            record.process = i;
            all.records.push_back(record);
            all.totals[0] = all.totals[0] + record.count;
        }
    }
    all.complete = is_second_complete;
    all.why = is_second_complete ? "" : "it has ended";
    return report;
}

} // namespace memleax
