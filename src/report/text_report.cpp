// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "backtrace_texts.hpp"
#include "first_sentence.hpp"
#include "leak_scope.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/events/process_end.hpp"
#include "memleax/report/coverage.hpp"
#include "memleax/report/growth_text.hpp"
#include "memleax/report/leak_check_report.hpp"
#include "memleax/report/live_lines.hpp"
#include "memleax/report/memory_shortage.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/report/report_writer.hpp"
#include "memleax/report/stopped_text.hpp"
#include "memleax/report/verdict_text.hpp"
#include "missing_lines.hpp"
#include "sum_text.hpp"

namespace memleax {

namespace {

/// "    verdict: growing, 5.2 MiB an hour (96% of blocks stay for 36 s; 1.2 blocks/s)".
std::string verdict_line(const Judgement& judgement) {
    std::string text = fmt::format("    verdict: {}", describe(judgement.verdict));
    // Of others a rate would promise what nobody knows.
    const std::string growth = judgement.verdict >= Verdict::growing ? growth_text(judgement) : "";
    if (!growth.empty()) {
        text += ", " + growth;
    }
    if (const std::string reason = why(judgement); !reason.empty()) {
        text += " (" + reason + ")";
    }
    return text + "\n";
}

std::string call_stack_text(const CallStackReport& stack, BacktraceTexts& backtraces) {
    const FreedLifetime freed = stack.freed_lifetime.value_or(FreedLifetime{});
    std::string text = fmt::format(
        "CallStack[{}]{}: may-leak={}\n", stack.id,
        stack.kind == MemoryKind::heap ? "" : fmt::format(" ({})", describe(stack.kind)),
        count_text(stack.may_leak()));
    text += stack.judgement ? verdict_line(*stack.judgement) : "";
    text += fmt::format("    expired={}, free_expired={}", count_text(stack.expired),
                        count_text(stack.free_expired));
    if (stack.untracked.blocks > 0) { // a pause, mostly
        text += fmt::format(", not_followed={}, of which expired={}", count_text(stack.untracked),
                            count_text(stack.untracked_expired));
    }
    text += '\n';
    text += fmt::format("    alloc={}, free={}\n", count_text(stack.alloc), count_text(stack.free));
    text += fmt::format("    freed memory live time: min={} max={} average={}\n",
                        seconds_text(freed.min_s), seconds_text(freed.max_s),
                        seconds_text(freed.mean_s));
    text += fmt::format("    un-freed memory live time: max={}\n",
                        seconds_text(stack.oldest_live_s.value_or(0)));
    backtraces.append_to(text, stack.frames, stack.end);
    return text += '\n';
}

const char* ending(const std::string& end_reason) {
    if (end_reason.empty()) {
        return "the watching goes on";
    }
    if (end_reason == "time") {
        return "the time is up";
    }
    if (end_reason == "target-exit") {
        return "the process has ended";
    }
    if (end_reason == "limit") {
        return "a limit is reached";
    }
    if (end_reason == "error") {
        return "the watching failed";
    }
    return "ended by the user";
}

/// With the status of the process, where there is one only.
std::string end_of(const Report& report) {
    const std::string& reason = report.session.end_reason;
    const bool has_status = reason == "target-exit" && !report.follows_forks &&
                            !report.processes.empty() && report.processes.front().status;
    return has_status
               ? fmt::format("{}: {}", ending(reason), end_text(report.processes.front().status))
               : ending(reason);
}

std::string events_text(const Report::Events& events) {
    std::string text = fmt::format(
        "== Seen: {}, {}, {}; {} failed, {} of unknown blocks, {}",
        number_of(events.alloc, "allocation"), number_of(events.free, "free"),
        number_of(events.realloc, "reallocation"), events.failed_alloc,
        number_of(events.unknown_free, "free"), number_of(events.double_free, "double free"));
    if (events.unfollowed_alloc != 0) {
        text += ", " + number_of(events.unfollowed_alloc, "allocation") + " not followed";
    }
    if (events.invalid_free != 0) {
        text += ", " + number_of(events.invalid_free, "invalid free");
    }
    if (events.mismatched_free != 0) {
        text += ", " + number_of(events.mismatched_free, "mismatched free");
    }
    return text + ".\n";
}

/// What is mapped, by kind; nothing of it is said of the heap alone.
std::string mapped_text(const std::optional<Report::Mapped>& mapped) {
    if (!mapped) {
        return "";
    }
    const auto live = [&mapped](MemoryKind kind) {
        return count_text(mapped->live.at(static_cast<std::size_t>(kind)));
    };
    std::string text = fmt::format(
        "== Mapped memory: {}, {}, {} failed. Live: mmap {}, brk {}, shm {}.\n"
        "== Not counted as the program's: by the allocator {}, thread stacks {}.\n",
        number_of(mapped->mapped, "mapping"), number_of(mapped->unmapped, "unmapping"),
        mapped->failed, live(MemoryKind::mmap), live(MemoryKind::brk), live(MemoryKind::shm),
        live(MemoryKind::allocator), live(MemoryKind::thread_stack));
    if (mapped->unexplained.value_or(0) != 0) {
        text += fmt::format("== Mapped by calls that were not seen (system calls that do not go "
                            "through the C library): {}.\n",
                            number_of(*mapped->unexplained, "byte"));
    }
    return text;
}

/// Where the process grows by what is not watched.
std::string coverage_line(const Report& report) {
    const auto coverage = coverage_of(report);
    return coverage && coverage->is_gap ? fmt::format("== {}.\n", coverage->text()) : "";
}

/// Whose memory is short, if anybody's is: of the first process that is short of it.
std::string shortage_line(const Report& report) {
    for (const Report::Process& process : report.processes) {
        const MemoryShortage shortage =
            process.looks ? shortage_of(*process.looks) : MemoryShortage{};
        if (shortage.is_short()) {
            return fmt::format("== Memory: {}.\n", shortage.text);
        }
    }
    return "";
}

/// Why it was saved before the end.
std::string saved_line(const Report::Session& session) {
    return session.saved_because.empty()
               ? ""
               : fmt::format("== Saved as {}.\n", printable(session.saved_because));
}

/// What the watching cost; nothing where no thread was seen that would have run.
std::string stopped_line(const Report::Session& session) {
    return session.stops.all() == 0 ? ""
                                    : fmt::format("== Stopped {}{}.\n", stopped_text(session.stops),
                                                  unmeasured_text(session.calls));
}

std::string header(const Report& report) {
    const Report::Session& session = report.session;
    const std::size_t others = std::max<std::size_t>(report.processes.size(), 1) - 1;
    const std::string and_others =
        !report.follows_forks
            ? ""
            : fmt::format(" and {} other process{}", others, others == 1 ? "" : "es");
    return fmt::format("\n{}\n== Watched {} ({}){} for {} s; {}.\n", first_sentence(report),
                       report.target.pid, printable(report.target.exe), and_others,
                       seconds_text(session.duration_s), end_of(report)) +
           saved_line(session) + events_text(session.events) + stopped_line(session) +
           coverage_line(report) + shortage_line(report) +
           (report.follows_forks ? "" : mapped_text(report.mapped));
}

/// "== Process 4712 (worker, /usr/bin/worker), child of 4711, from 1.2 s to 3 s: exit status 0."
std::string process_header(const Report::Process& process) {
    std::string text = fmt::format("\n== Process {} ({}, {})", process.pid, printable(process.comm),
                                   printable(process.exe));
    if (process.parent != 0) {
        text +=
            fmt::format(", child of {}, from {} s", process.parent, seconds_text(process.begin_s));
    }
    if (process.end_s) {
        text += fmt::format("{} to {} s: {}", process.parent != 0 ? "" : ",",
                            seconds_text(*process.end_s), end_text(process.status));
    }
    return text + ".\n" + events_text(process.events) + mapped_text(process.mapped);
}

/// Those of one process, or of all.
void write_errors(const Report& report, std::optional<std::uint32_t> process, ReportSink& sink) {
    std::size_t shown = 0;
    for (const ErrorReport& error : report.errors) {
        if (!process || error.process == *process) {
            sink.write(shown++ == 0 ? "== Memory errors:\n\n" : "");
            sink.write(memory_error(error, report.name_style) + "\n");
        }
    }
    if (shown == 0 && report.checks) {
        sink.write("== No memory errors.\n");
    }
}

/// Those of one process, or of all.
void write_unfollowed(const Report& report, std::optional<std::uint32_t> process,
                      BacktraceTexts& backtraces, ReportSink& sink) {
    bool is_first = true;
    for (const UnfollowedReport& each : report.unfollowed) {
        if (process && each.process != *process) {
            continue;
        }
        std::string text =
            std::exchange(is_first, false)
                ? "== Not followed: what these allocations returned is not known, nor whether it "
                  "is freed.\n\n"
                : "";
        text += fmt::format("Not followed: {}, {}\n", count_text(each.calls), describe(each.why));
        backtraces.append_to(text, each.frames, each.end);
        sink.write(text + "\n");
    }
}

/// Call stacks, of one process or of all, with blocks that were set aside, and that
/// write_stacks() leaves out.
void write_set_aside(const Report& report, std::optional<std::uint32_t> process,
                     BacktraceTexts& backtraces, ReportSink& sink) {
    constexpr std::ptrdiff_t kMost = 10; // a pause concerns all that is live then
    std::vector<const CallStackReport*> aside;
    for (const CallStackReport& stack : report.callstacks) {
        if (stack.untracked.blocks > 0 && !stack.is_in_text() &&
            (!process || stack.process == *process)) {
            aside.push_back(&stack);
        }
    }
    if (aside.empty()) {
        return;
    }
    std::stable_sort(aside.begin(), aside.end(), [](const auto* a, const auto* b) {
        return a->untracked.bytes < b->untracked.bytes;
    });
    const auto shown = std::min(std::ssize(aside), kMost);
    const std::string scope = shown < std::ssize(aside)
                                  ? fmt::format(" ({} of {} call stacks)", shown, aside.size())
                                  : "";
    sink.write(
        fmt::format("== Set aside: nobody knows whether these blocks are freed{}.\n\n", scope));
    for (auto each = aside.end() - shown; each != aside.end(); ++each) {
        const CallStackReport& stack = **each;
        std::string text =
            fmt::format("CallStack[{}]: not_followed={}\n", stack.id, count_text(stack.untracked));
        backtraces.append_to(text, stack.frames, stack.end);
        sink.write(text + "\n");
    }
}

/// The call stacks of one process, or of all; the number of them.
std::size_t write_stacks(const Report& report, std::optional<std::uint32_t> process,
                         BacktraceTexts& backtraces, ReportSink& sink) {
    std::size_t shown = 0;
    for (const CallStackReport& stack : report.callstacks) {
        if (!stack.is_in_text() || (process && stack.process != *process)) {
            continue;
        }
        if (shown++ == 0) {
            sink.write("== Callstack statistics: (in ascending order)\n\n");
        }
        sink.write(call_stack_text(stack, backtraces));
    }
    if (shown == 0 && !report.has_page_faults_only()) {
        sink.write("== No expired memory blocks.\n");
    }
    return shown;
}

/// Of one process, or of all.
void write_page_faults(const Report& report, std::optional<std::uint32_t> process,
                       ReportSink& sink) {
    if (!report.page_faults) {
        return;
    }
    const PageFaultReport& faults = *report.page_faults;
    sink.write(
        fmt::format("== Page faults: {}.\n",
                    fault_totals_text(process ? faults.processes.at(*process) : faults.totals)));
    const std::string resident = resident_line(faults, process);
    sink.write((resident.empty() ? "" : "== " + resident) + "\n");
    write_fault_stacks(faults, process, faults.stacks.size(), report.name_style, sink);
}

void write_probes(const Report& report, std::optional<std::uint32_t> process, ReportSink& sink) {
    if (report.probes) {
        sink.write(probes_text(*report.probes, process, report.name_style));
    }
}

std::string leak_check_heading(const LeakFindings& findings) {
    constexpr double kNow = 1;
    const double age = findings.age_s.value_or(0);
    return fmt::format("== Leak check{} (the process stood still for {:.1f} ms):\n",
                       age < kNow ? "" : fmt::format(", by a look {:.0f} s ago", age),
                       findings.pause_s * 1000);
}

/// Of one process among several.
void write_leak_check(const Report& report, std::uint32_t process, ReportSink& sink) {
    if (const auto& findings = report.processes[process].leak_check) {
        sink.write(leak_check_heading(*findings));
        write_leak_findings_of(*findings, report.leak_check->records, process, report.name_style,
                               sink);
        sink.write(heap_counts_text(*findings));
    }
}

/// Of several processes together, as far as they could be looked at.
std::string leak_check_sum(const Report& report) {
    const LeakScope scope = leak_scope(report);
    return scope.processes < 2 || !scope.is_some()
               ? ""
               : fmt::format("== Leak check of {}:\n{}\n", scope.text(),
                             leak_totals_text(*report.leak_check));
}

/// Of all processes, or of the one that there is.
void write_leak_check(const Report& report, ReportSink& sink) {
    if (!report.leak_check) {
        return;
    }
    if (report.follows_forks) {
        sink.write(fmt::format("\n{}", leak_check_sum(report)));
        return;
    }
    sink.write(leak_check_heading(*report.leak_check));
    write_leak_findings(*report.leak_check, report.name_style, sink);
    sink.write(heap_counts_text(*report.leak_check) + "\n");
}

} // namespace

void write_text(const Report& report, ReportSink& sink) {
    sink.write(header(report));
    BacktraceTexts backtraces(4, report.name_style);
    std::size_t shown = 0;
    if (!report.follows_forks) {
        write_errors(report, std::nullopt, sink);
        write_unfollowed(report, std::nullopt, backtraces, sink);
        write_set_aside(report, std::nullopt, backtraces, sink);
        write_page_faults(report, std::nullopt, sink);
        write_probes(report, std::nullopt, sink);
        shown = write_stacks(report, std::nullopt, backtraces, sink);
    } else {
        for (std::uint32_t i = 0; i < report.processes.size(); ++i) {
            sink.write(process_header(report.processes[i]));
            write_errors(report, i, sink);
            write_unfollowed(report, i, backtraces, sink);
            write_set_aside(report, i, backtraces, sink);
            write_page_faults(report, i, sink);
            write_probes(report, i, sink);
            shown += write_stacks(report, i, backtraces, sink);
            write_leak_check(report, i, sink);
        }
    }
    write_leak_check(report, sink);
    if (shown == 0 && report.has_page_faults_only()) {
        sink.write("== No allocation was seen.\n");
        return;
    }
    if (shown == 0) { // which may be because it is too early
        sink.write(fmt::format("== Live in all: {}.\n", count_text(report.totals.live)));
        return;
    }
    sink.write(missing_lines_text(report));
    sink.write(sum_text(report)); // next to the prompt
}

} // namespace memleax
