// SPDX-License-Identifier: GPL-3.0-or-later
/// The formats of a report: one model, many writers.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "memleax/report.hpp"

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

using ReportWriter = void (*)(const Report& report, ReportSink& sink);

/// For people: call stacks with expired blocks that are still there, most leaked bytes last.
void write_text(const Report& report, ReportSink& sink);
/// For programs: one JSON document, with every call stack of the model.
void write_json(const Report& report, ReportSink& sink);
/// For browsers: a page that fetches nothing. Empty but for the data in a build without html.
void write_html(const Report& report, ReportSink& sink);

struct ReportFormat {
    std::string_view name;             ///< of --format and of the prompt's `save`
    std::string_view what;             ///< for --help
    ReportWriter write;                ///< null: this build is without it
    std::string_view why_without = {}; ///< ... for which reason
};

/// Every format; the first is the default.
std::span<const ReportFormat> report_formats();
/// Null if there is none of that name.
const ReportFormat* find_report_format(std::string_view name);

} // namespace memleax
