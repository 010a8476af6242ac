// SPDX-License-Identifier: GPL-3.0-or-later
/// The formats of a report: one model, many writers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "memleax/report/report.hpp"

namespace memleax {

/// Takes a report in pieces, so that one of 10^5 call stacks is never in memory as text.
class ReportSink {
  public:
    virtual ~ReportSink() = default;
    virtual void write(std::string_view piece) = 0;
};

/// Keeps it after all: for small reports.
class StringSink final : public ReportSink {
  public:
    void write(std::string_view piece) override { text += piece; }
    std::string text;
};

struct LeakCheckReport;
using ReportWriter = void (*)(const Report& report, ReportSink& sink);
using LeakCheckWriter = void (*)(const LeakCheckReport& report, ReportSink& sink);

/// For people: call stacks with expired blocks that are still there, most leaked bytes last.
void write_text(const Report& report, ReportSink& sink);
/// For programs: one JSON document, with every call stack of the model.
void write_json(const Report& report, ReportSink& sink);
/// For flame graphs: "main;run;malloc 4096", a line for each call stack, root first, with the bytes
/// that it has allocated and that are live (expired or not). Stacks of the same names are one line;
/// inlined calls are frames of their own.
void write_folded(const Report& report, ReportSink& sink);
/// The same with the number of live blocks.
void write_folded_blocks(const Report& report, ReportSink& sink);
/// The same of page faults, and of the bytes of pages that came in by them and are still there
/// (--track faults, mmap, brk). Nothing where those are not followed.
void write_folded_faults(const Report& report, ReportSink& sink);
void write_folded_resident(const Report& report, ReportSink& sink);
/// For pprof and speedscope: a profile.proto, in gzip. A sample for each call stack, with what it
/// has allocated and what of that is live, and with its verdict as a label. With page faults they
/// are sample types of their own, behind the others.
void write_pprof(const Report& report, ReportSink& sink);
/// For KCachegrind and callgrind_annotate: a graph of functions. Self cost is at the allocating
/// function; see src/report/call_graph.hpp for the calls' and for recursion.
void write_callgrind(const Report& report, ReportSink& sink);
/// For browsers: a page that fetches nothing. Empty but for the data in a build without html.
void write_html(const Report& report, ReportSink& sink);

struct ReportFormat {
    std::string_view name;             ///< of --format and of the prompt's `save`
    std::string_view extension;        ///< of files, if nobody has named them
    std::string_view what;             ///< for --help
    ReportWriter write;                ///< null: this build is without it
    std::string_view why_without = {}; ///< ... for which reason
    bool is_binary = false;            ///< not for a terminal
    /// Of a look at the heap without watching; null: there is no such form.
    LeakCheckWriter write_leak_check = nullptr;
};

/// Every format; the first is the default.
std::span<const ReportFormat> report_formats();
/// Null if there is none of that name.
const ReportFormat* find_report_format(std::string_view name);

} // namespace memleax
