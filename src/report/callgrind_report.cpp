// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "call_graph.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/report_writer.hpp"
#include "piece_buffer.hpp"

namespace memleax {

namespace {

/// Long names of CallGraph::kEvents.
constexpr std::array<const char*, CallGraph::kEvents.size()> kEventNames{
    "Live bytes",           "Live blocks",     "Bytes that may leak",
    "Blocks that may leak", "Allocated bytes", "Allocated blocks"};

class CallgrindWriter {
  public:
    CallgrindWriter(const Report& report, ReportSink& sink)
        : report_(report), graph_(report), out_(sink) {}

    void write() {
        write_header();
        for (CallGraph::FunctionId caller = 0; caller < graph_.functions().size(); ++caller) {
            write_function(caller);
        }
        out_.flush();
    }

  private:
    /// Names are numbered apart for these (all "fl" and "cfi", all "fn" and "cfn", ...).
    enum Kind { objects, files, functions, kinds };

    void write_header();
    void write_function(CallGraph::FunctionId caller);
    void write_name(std::string_view key, Kind kind, CallGraph::Name name);

    const Report& report_;
    CallGraph graph_;
    PieceBuffer out_;
    std::array<std::vector<bool>, kinds> defined_;
};

void CallgrindWriter::write_header() {
    out_.print("# callgrind format\nversion: 1\ncreator: memleax {}\n", report_.version);
    out_.print("pid: {}\ncmd: {}\n", report_.target.pid, printable(report_.target.exe));
    out_.print("desc: Trigger: end of the watching, after {:.3f} s\n", report_.session.duration_s);
    out_.print("\npositions: line\n");
    for (std::size_t i = 0; i < kEventNames.size(); ++i) {
        out_.print("event: {} : {}\n", CallGraph::kEvents[i], kEventNames[i]);
    }
    out_.print("events: {}\nsummary: {}\n", fmt::join(CallGraph::kEvents, " "),
               fmt::join(graph_.total(), " "));
}

/// In full where it is met first.
void CallgrindWriter::write_name(std::string_view key, Kind kind, CallGraph::Name name) {
    std::vector<bool>& defined = defined_[kind];
    const std::uint32_t number = name + 1; // as callgrind counts
    if (defined.size() <= name) {
        defined.resize(name + std::size_t{1});
    }
    if (defined[name]) {
        out_.print("{}=({})\n", key, number);
    } else {
        out_.print("{}=({}) {}\n", key, number, graph_.name(name));
        defined[name] = true;
    }
}

void CallgrindWriter::write_function(CallGraph::FunctionId caller) {
    const CallGraph::Function& function = graph_.functions()[caller];
    out_.print("\n");
    write_name("ob", objects, function.object);
    write_name("fl", files, function.file);
    write_name("fn", functions, function.name);
    std::optional<unsigned> line;
    for (const CallGraph::LineCost& cost : graph_.costs(caller)) {
        if (cost.callee != CallGraph::kNone) {
            if (line != cost.line) {
                // callgrind_annotate shows the calls of a line that has a cost of its own.
                out_.print("{} 0\n", cost.line);
                line = cost.line;
            }
            // All three: what a missing one means depends on the reader.
            const CallGraph::Function& callee = graph_.functions()[cost.callee];
            write_name("cob", objects, callee.object);
            write_name("cfi", files, callee.file);
            write_name("cfn", functions, callee.name);
            // callgrind_annotate takes the cost behind "calls=0" for the function's own.
            out_.print("calls={} 0\n", std::max<std::uint64_t>(cost.calls, 1));
        }
        out_.print("{} {} {} {} {} {} {}\n", cost.line, cost.cost[0], cost.cost[1], cost.cost[2],
                   cost.cost[3], cost.cost[4], cost.cost[5]);
    }
}

} // namespace

void write_callgrind(const Report& report, ReportSink& sink) {
    CallgrindWriter(report, sink).write();
}

} // namespace memleax
