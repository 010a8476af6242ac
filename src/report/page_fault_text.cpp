// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <tuple>

#include <fmt/format.h>

#include "backtrace_texts.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/page_fault_report.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/report/report_writer.hpp"

namespace memleax {

std::string touched_text(const TouchedCount& touched) {
    if (touched.kind != TouchedKind::file) {
        return fmt::format("{} {}", touched.all(), describe(touched.kind));
    }
    return fmt::format("{} {} (0x{:x}-0x{:x})", touched.all(), printable(touched.file),
                       touched.begin.value(), touched.end.value());
}

void sort_fault_stacks(PageFaultReport* report) {
    std::stable_sort(report->stacks.begin(), report->stacks.end(),
                     [](const FaultStackReport& a, const FaultStackReport& b) {
                         return std::tuple(a.minor + a.major, a.major) <
                                std::tuple(b.minor + b.major, b.major);
                     });
}

FaultTotals operator+(const FaultTotals& a, const FaultTotals& b) {
    return {.minor = a.minor + b.minor,
            .major = a.major + b.major,
            .lost = a.lost + b.lost,
            .own = a.own + b.own,
            .user_only = a.user_only || b.user_only};
}

std::string fault_totals_text(const FaultTotals& totals) {
    std::string text = fmt::format("{} minor, {} major", totals.minor, totals.major);
    if (totals.lost != 0) {
        text +=
            fmt::format("; the samples of {} were lost: they are at no call stack", totals.lost);
    }
    if (totals.own != 0) {
        text += fmt::format("; {} more of memleax's own pages", totals.own);
    }
    if (totals.user_only) {
        text += "; those within system calls are not counted (kernel.perf_event_paranoid)";
    }
    return text;
}

std::string resident_line(const PageFaultReport& faults, std::optional<std::uint32_t> process) {
    if (!faults.resident) {
        return "";
    }
    return fmt::format(
        "Still there: {}.\n",
        resident_text(process ? faults.resident_of_processes.at(*process) : *faults.resident));
}

void write_fault_stacks(const PageFaultReport& faults, std::optional<std::uint32_t> process,
                        std::size_t limit, NameStyle style, ReportSink& sink) {
    std::vector<const FaultStackReport*> shown;
    for (const FaultStackReport& stack : faults.stacks) {
        if (!process || stack.process == *process) {
            shown.push_back(&stack);
        }
    }
    BacktraceTexts backtraces(4, style);
    for (std::size_t i = shown.size() - std::min(shown.size(), limit); i < shown.size(); ++i) {
        const FaultStackReport& stack = *shown[i];
        std::string text = fmt::format("Page faults: {} minor, {} major", stack.minor, stack.major);
        if (stack.still_bytes) {
            text += fmt::format("; still there: {}",
                                bytes_text(static_cast<double>(*stack.still_bytes)));
        }
        text += ":";
        const char* separator = " ";
        for (const TouchedCount& touched : stack.touched) {
            text += separator + touched_text(touched);
            separator = ", ";
        }
        text += "\n";
        backtraces.append_to(text, stack.frames, stack.end);
        sink.write(text + "\n");
    }
}

} // namespace memleax
