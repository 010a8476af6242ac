// SPDX-License-Identifier: GPL-3.0-or-later
// One page that fetches nothing: the page of src/report/html/ around the verdict in plain words,
// which is readable without scripts, and the data.
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "html_data.hpp"
#include "html_page.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/leak_check_report.hpp"
#include "memleax/report/live_lines.hpp"
#include "memleax/report/report_writer.hpp"
#include "summary.hpp"

namespace memleax {

namespace {

/// As text of an element or in quotes.
std::string escaped(const std::string& text) {
    std::string result;
    for (const char c : printable(text)) {
        switch (c) {
        case '&':
            result += "&amp;";
            break;
        case '<':
            result += "&lt;";
            break;
        case '>':
            result += "&gt;";
            break;
        case '"':
            result += "&quot;";
            break;
        default:
            result += c;
        }
    }
    return result;
}

const char* class_of(Summary::Mood mood) {
    switch (mood) {
    case Summary::Mood::good:
        return "good";
    case Summary::Mood::too_early:
        return "early";
    case Summary::Mood::not_judged:
    case Summary::Mood::growing:
        return "growing";
    case Summary::Mood::leaking:
        return "leaking";
    }
    return "";
}

/// No line ends between a number and its unit.
std::string unbroken(std::string text) {
    for (const std::string_view unit : {" B", " KiB", " MiB", " GiB", " TiB", " s"}) {
        for (auto at = text.find(unit); at != std::string::npos; at = text.find(unit, at + 1)) {
            if (at > 0 && text[at - 1] >= '0' && text[at - 1] <= '9') {
                text.replace(at, 1, "&nbsp;");
            }
        }
    }
    return text;
}

std::string verdict_html(const Summary& summary) {
    std::string html = fmt::format("<h1 class=\"{}\">{}</h1>\n", class_of(summary.mood),
                                   unbroken(escaped(summary.headline)));
    if (!summary.place.empty()) {
        html += fmt::format("<p>{}: <code>{}</code></p>\n", escaped(summary.detail),
                            escaped(summary.place));
    } else if (!summary.detail.empty()) {
        html += fmt::format("<p>{}.</p>\n", escaped(summary.detail));
    }
    if (!summary.besides.empty()) {
        html += fmt::format("<p>Besides: {}.</p>\n", unbroken(escaped(summary.besides)));
    }
    return html;
}

/// Figures of a moment, which later reports do not have.
std::string goes_on_html(const Report::Session& session) {
    const std::string why =
        session.saved_because.empty() ? "" : " as " + unbroken(escaped(session.saved_because));
    return session.end_reason.empty() && !session.is_look
               ? fmt::format(
                     "<p class=\"note\">Saved after {}&nbsp;s{}, while the watching goes on: "
                     "all figures are those of that moment.</p>\n",
                     seconds_text(session.duration_s), why)
               : "";
}

} // namespace

void write_html(const Report& report, ReportSink& sink) {
    sink.write(kHtmlPage.before_verdict);
    sink.write(verdict_html(summarize(report)) + goes_on_html(report.session));
    sink.write(kHtmlPage.before_data);
    write_html_data(report, sink);
    sink.write(kHtmlPage.after_data);
}

void write_leak_check_html(const LeakCheckReport& report, ReportSink& sink) {
    Report page;
    page.version = report.version;
    page.target = {report.pid, report.exe, report.arch, report.threads};
    page.session.is_look = true;
    page.leak_check = report;
    write_html(page, sink);
}

} // namespace memleax
