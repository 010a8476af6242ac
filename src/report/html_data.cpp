// SPDX-License-Identifier: GPL-3.0-or-later
#include "html_data.hpp"

#include <cmath>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "frame_labels.hpp"
#include "frame_tree.hpp"
#include "function_name.hpp"
#include "leak_scope.hpp"
#include "memleax/report/leak_check_report.hpp"
#include "memleax/report/memory_shortage.hpp"
#include "memleax/report/own_frame.hpp"
#include "memleax/report/verdict_text.hpp"
#include "name_table.hpp"
#include "piece_buffer.hpp"

namespace memleax {

namespace {

/// Names come from untrusted files, need not be UTF-8, and may contain "</script>".
std::string json_text(std::string_view text) {
    const std::string json =
        nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    std::string result;
    for (const char c : json) {
        result += c == '<' ? std::string_view("\\u003c") : std::string_view(&c, 1);
    }
    return result;
}

/// JSON has no infinity; more digits than six tell nobody anything.
std::string number(double value) {
    return std::isfinite(value) ? fmt::format("{:.6g}", value) : "null";
}

std::string pair(BlockCount count) {
    return fmt::format("{},{}", count.blocks, count.bytes);
}

class DataWriter {
  public:
    explicit DataWriter(ReportSink& sink) : out_(sink) {}
    void write(const Report& report);

  private:
    void write_about(const Report& report);
    void write_shortage(const Report& report);
    void write_stacks(const Report& report);
    void write_stack(const CallStackReport& stack);
    void write_leaks(const LeakFindings& findings, const LeakScope& scope);
    void write_counts(const HeapCounts& counts);
    void write_record(const LeakRecord& record);
    void write_unfollowed(const std::vector<UnfollowedReport>& unfollowed);
    void write_faults(const PageFaultReport& faults);
    void write_probes(const std::vector<ProbeReport>& probes);
    /// "NODE,OWN,END" of a stack that is no CallStackReport.
    std::string place_of(std::uint32_t process, const Backtrace& frames, StackEnd end);
    void write_tree();
    void write_frames();

    std::uint32_t name(std::string_view text) { return names_.number(std::string(text)).first; }
    /// The times of intervals are the same for many call stacks.
    std::uint32_t division(const std::vector<IntervalReport>& intervals);

    PieceBuffer out_;
    const SourceFrame* root_of(std::uint32_t process_index, MemoryKind memory,
                               const std::string& kind);

    /// Processes and kinds of memory, as frames outside of all others; the tree refers to them.
    std::map<std::pair<std::uint32_t, MemoryKind>, SourceFrame> roots_;
    const Report* report_ = nullptr;
    FrameTree tree_;
    NameTable names_;
    NameTable divisions_; ///< as JSON
};

void DataWriter::write(const Report& report) {
    report_ = &report;
    write_about(report);
    write_stacks(report);
    if (report.leak_check) {
        write_leaks(*report.leak_check, leak_scope(report));
    }
    if (!report.unfollowed.empty()) {
        write_unfollowed(report.unfollowed);
    }
    if (report.page_faults) {
        write_faults(*report.page_faults);
    }
    if (report.probes) {
        write_probes(*report.probes);
    }
    write_tree();
    write_frames();
    out_.print("\"divisions\":[");
    for (std::uint32_t i = 0; i < divisions_.size(); ++i) {
        out_.print("{}{}", i == 0 ? "" : ",", divisions_.name(i));
    }
    out_.print("],\n\"names\":[");
    for (std::uint32_t i = 0; i < names_.size(); ++i) {
        out_.print("{}{}", i == 0 ? "\n" : ",\n", json_text(names_.name(i)));
    }
    out_.print("]}}\n");
    out_.flush();
}

void DataWriter::write_about(const Report& report) {
    const Report::Session& session = report.session;
    const Report::Events& events = session.events;
    out_.print("{{\"version\":{},\n", json_text(report.version));
    out_.print("\"target\":{{\"pid\":{},\"exe\":{},\"arch\":{},\"threads\":{}}},\n",
               report.target.pid, json_text(report.target.exe), json_text(report.target.arch),
               report.target.threads);
    out_.print("\"session\":{{\"look\":{},\"engine\":{},\"duration\":{},\"expire\":{},\"end\":{},",
               session.is_look, json_text(session.engine), number(session.duration_s),
               number(session.expire_s), json_text(session.end_reason));
    out_.print("\"allocs\":{},\"frees\":{},\"reallocs\":{},\"failed\":{},\"unknownFrees\":{},"
               "\"doubleFrees\":{},\"unfollowed\":{}}},\n",
               events.alloc, events.free, events.realloc, events.failed_alloc, events.unknown_free,
               events.double_free, events.unfollowed_alloc);
    out_.print("\"live\":[{}],\"old\":[{}],\n", pair(report.totals.live),
               pair(report.totals.expired));
    out_.print("\"memory\":[");
    const char* separator = "";
    for (const Report::MemorySample& sample : report.memory) {
        out_.print("{}{},{},{}", separator, number(sample.time_s), sample.live_bytes,
                   sample.rss_bytes);
        separator = ",";
    }
    out_.print("],\n");
    write_shortage(report);
}

void DataWriter::write_shortage(const Report& report) {
    if (report.processes.empty() || !report.processes[0].looks) {
        return;
    }
    const auto figure = [](std::optional<std::uint64_t> value) {
        return value ? fmt::format("{}", *value) : std::string("null");
    };
    out_.print("\"shortage\":{{\"verdict\":{},\"samples\":[",
               json_text(shortage_of(*report.processes[0].looks).text));
    const char* separator = "";
    for (const Report::MemorySample& sample : report.memory) { // as many as in "memory"
        out_.print("{}{},{},{},{},{}", separator, figure(sample.group_bytes),
                   figure(sample.group_limit), figure(sample.available_bytes),
                   figure(sample.group_stalled_us), figure(sample.machine_stalled_us));
        separator = ",";
    }
    out_.print("]}},\n");
}

void DataWriter::write_stacks(const Report& report) {
    out_.print("\"stacks\":[");
    const char* separator = "\n";
    for (const CallStackReport& stack : report.callstacks) {
        out_.print("{}", separator);
        write_stack(stack);
        separator = ",\n";
    }
    out_.print("],\n");
}

const SourceFrame* DataWriter::root_of(std::uint32_t process_index, MemoryKind memory,
                                       const std::string& kind) {
    const bool has_process = report_->follows_forks && process_index < report_->processes.size();
    if (!has_process && kind.empty()) {
        return nullptr;
    }
    SourceFrame& root = roots_[{process_index, memory}];
    root.function = kind;
    if (has_process) {
        const Report::Process& process = report_->processes[process_index];
        root.function =
            fmt::format("{}-{}{}{}", process.comm, process.pid, kind.empty() ? "" : " ", kind);
        root.module = process.exe.substr(process.exe.rfind('/') + 1);
    }
    return &root;
}

void DataWriter::write_stack(const CallStackReport& stack) {
    const std::uint32_t node =
        tree_.insert(stack.frames, root_of(stack.process, stack.kind, kind_label(stack)));
    const char* end = stack.end == StackEnd::outermost ? "" : describe(stack.end);
    out_.print("[{},{},{},{},", stack.id, node, where_of(stack), name(end));
    if (stack.judgement) {
        const Judgement& judgement = *stack.judgement;
        out_.print("[{},{},{},{},{}],", static_cast<unsigned>(judgement.verdict),
                   number(judgement.score), json_text(why(judgement)),
                   number(judgement.blocks_per_s), number(judgement.bytes_per_s));
    } else {
        out_.print("null,");
    }
    out_.print("[{},{},{},{},{},{},{}],", pair(stack.alloc), pair(stack.free), pair(stack.live),
               pair(stack.expired), pair(stack.free_expired), pair(stack.untracked),
               pair(stack.untracked_expired));
    if (stack.freed_lifetime) {
        out_.print("[{},{},{}],", number(stack.freed_lifetime->min_s),
                   number(stack.freed_lifetime->mean_s), number(stack.freed_lifetime->max_s));
    } else {
        out_.print("null,");
    }
    out_.print("{},{},[", stack.oldest_live_s ? number(*stack.oldest_live_s) : "null",
               division(stack.intervals));
    const char* separator = "";
    for (const IntervalReport& interval : stack.intervals) {
        out_.print("{}{},{}", separator, pair(interval.alloc), pair(interval.live));
        separator = ",";
    }
    out_.print("]]");
}

void DataWriter::write_leaks(const LeakFindings& findings, const LeakScope& scope) {
    out_.print("\"leaks\":{{\"known\":{},\"processes\":{},\"scope\":{},\"why\":{},\"unlisted\":{},",
               scope.known, scope.processes, json_text(scope.text()), json_text(findings.why),
               json_text(findings.unlisted));
    out_.print("\"pause\":{},\"age\":{},\"common\":{},\"totals\":[", number(findings.pause_s),
               number(findings.age_s.value_or(0)), json_text(common_offset_text(findings)));
    const char* separator = "";
    for (const BlockCount& total : findings.totals) {
        out_.print("{}{}", separator, pair(total));
        separator = ",";
    }
    out_.print("],\"types\":[");
    write_counts(findings.types);
    out_.print("],\"holders\":[");
    write_counts(findings.holders);
    out_.print("],\"records\":[");
    separator = "\n";
    if (scope.is_some()) { // else nothing is said of any block
        for (const LeakRecord& record : findings.records) {
            out_.print("{}", separator);
            write_record(record);
            separator = ",\n";
        }
    }
    out_.print("]}},\n");
}

void DataWriter::write_counts(const HeapCounts& counts) {
    constexpr std::size_t kMost = 20;
    const char* separator = "";
    for (const auto& [label, count] : largest(counts, kMost)) {
        out_.print("{}{},{}", separator, name(label), pair(count));
        separator = ",";
    }
}

void DataWriter::write_record(const LeakRecord& record) {
    const bool is_watched = record.callstack != 0;
    // Of one whose call stack is not known the process alone, if there are several.
    const SourceFrame* root = root_of(record.process, MemoryKind::heap, "");
    const std::uint32_t node =
        is_watched || root != nullptr ? tree_.insert(record.frames, root) : 0;
    const bool is_whole = !is_watched || record.end == StackEnd::outermost;
    out_.print("[{},{},{},{},{},{},{},{},[", static_cast<unsigned>(record.loss), record.size,
               pair(record.count), name(record.type), record.callstack, node,
               own_frame(record.frames), name(is_whole ? "" : describe(record.end)));
    const char* separator = "";
    for (const RemoteAddr address : record.addresses) {
        out_.print("{}\"{:x}\"", separator, address.value());
        separator = ",";
    }
    out_.print("],[");
    separator = "";
    for (const LeakHolder& holder : record.holders) {
        out_.print("{}{},{}", separator, name(holder.name), holder.blocks);
        separator = ",";
    }
    out_.print("]]");
}

std::string DataWriter::place_of(std::uint32_t process, const Backtrace& frames, StackEnd end) {
    return fmt::format("{},{},{}", tree_.insert(frames, root_of(process, MemoryKind::heap, "")),
                       own_frame(frames), name(end == StackEnd::outermost ? "" : describe(end)));
}

void DataWriter::write_unfollowed(const std::vector<UnfollowedReport>& unfollowed) {
    out_.print("\"unfollowed\":[");
    const char* separator = "\n";
    for (auto each = unfollowed.rbegin(); each != unfollowed.rend(); ++each) {
        out_.print("{}[{},{},{}]", separator, place_of(each->process, each->frames, each->end),
                   pair(each->calls), name(describe(each->why)));
        separator = ",\n";
    }
    out_.print("],\n");
}

void DataWriter::write_faults(const PageFaultReport& faults) {
    out_.print("\"faults\":{{\"totals\":{},\"resident\":{},\"stacks\":[",
               json_text(fault_totals_text(faults.totals)),
               faults.resident ? json_text(resident_text(*faults.resident)) : "null");
    const char* separator = "\n";
    for (auto stack = faults.stacks.rbegin(); stack != faults.stacks.rend(); ++stack) {
        out_.print("{}[{},{},{},{},[", separator,
                   place_of(stack->process, stack->frames, stack->end), stack->minor, stack->major,
                   stack->still_bytes ? fmt::format("{}", *stack->still_bytes) : "null");
        separator = ",\n";
        const char* comma = "";
        for (const TouchedCount& touched : stack->touched) {
            out_.print("{}{}", comma, name(touched_text(touched)));
            comma = ",";
        }
        out_.print("]]");
    }
    out_.print("]}},\n");
}

void DataWriter::write_probes(const std::vector<ProbeReport>& probes) {
    out_.print("\"probes\":[");
    const char* separator = "\n";
    for (const ProbeReport& probe : probes) {
        out_.print("{}[{},{},[", separator, json_text(probe.name), json_text(probe_line(probe)));
        separator = ",\n";
        const char* comma = "";
        for (auto stack = probe.stacks.rbegin(); stack != probe.stacks.rend(); ++stack) {
            out_.print("{}[{},{}]", comma, place_of(probe.process, stack->frames, stack->end),
                       stack->calls);
            comma = ",";
        }
        out_.print("]]");
    }
    out_.print("],\n");
}

std::uint32_t DataWriter::division(const std::vector<IntervalReport>& intervals) {
    std::string times = "[";
    for (const IntervalReport& interval : intervals) {
        times += fmt::format("{}{},{}", times.size() == 1 ? "" : ",", number(interval.begin_s),
                             number(interval.end_s));
    }
    return divisions_.number(times + "]").first;
}

void DataWriter::write_tree() {
    // How far back the parent is, and the frame: along a path the former is mostly 1.
    out_.print("\"tree\":[");
    std::uint32_t number = 1;
    for (const FrameTree::Node& node : tree_.nodes()) {
        out_.print("{}{},{}", number == 1 ? "" : ",", number - node.parent, node.frame);
        ++number;
    }
    out_.print("],\n");
}

void DataWriter::write_frames() {
    out_.print("\"frames\":[");
    const char* separator = "\n";
    for (const SourceFrame* frame : tree_.frames()) {
        out_.print("{}[{},{},{},{},{},\"{:x}\",{},{},{}]", separator,
                   name(bare_name(frame->function)), name(frame->function), name(frame->module),
                   name(frame->file), frame->line, frame->pc.value(),
                   frame->offset ? fmt::format("{}", *frame->offset) : "null",
                   frame->inlined ? 1 : 0,
                   frame->module_offset ? fmt::format("\"{:x}\"", *frame->module_offset) : "null");
        separator = ",\n";
    }
    out_.print("],\n");
}

} // namespace

void write_html_data(const Report& report, ReportSink& sink) {
    DataWriter(sink).write(report);
}

} // namespace memleax
