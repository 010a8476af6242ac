// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <array>

#include "memleax/report/leak_check_report.hpp"
#include "memleax/report/report_writer.hpp"

namespace memleax {

namespace {
constexpr std::array kFormats{
    ReportFormat{
        "text", ".txt", "for people; the default", write_text, {}, false, write_leak_check_text},
    ReportFormat{"json",
                 ".json",
                 "for programs: all that is known",
                 write_json,
                 {},
                 false,
                 write_leak_check_json},
    ReportFormat{"folded", ".folded", "live bytes, for flame graphs", write_folded},
    ReportFormat{"folded-blocks", ".folded", "live blocks, for flame graphs", write_folded_blocks},
    ReportFormat{"folded-faults", ".folded", "page faults (--track faults), for flame graphs",
                 write_folded_faults},
    ReportFormat{"folded-resident", ".folded",
                 "bytes of page faults that are still there (--track faults,mmap,brk), for flame "
                 "graphs",
                 write_folded_resident},
    ReportFormat{"pprof", ".pb.gz", "for pprof: profile.proto, in gzip", write_pprof, {}, true},
    ReportFormat{"callgrind", ".callgrind", "for KCachegrind", write_callgrind},
    ReportFormat{"html", ".html", "for browsers: a page that fetches nothing",
                 MEMLEAX_WITH_HTML != 0 ? write_html : nullptr, MEMLEAX_WHY_WITHOUT_HTML, false,
                 write_leak_check_html},
};
} // namespace

std::span<const ReportFormat> report_formats() {
    return kFormats;
}

const ReportFormat* find_report_format(std::string_view name) {
    const auto found = std::find_if(kFormats.begin(), kFormats.end(),
                                    [name](const ReportFormat& f) { return f.name == name; });
    return found == kFormats.end() ? nullptr : &*found;
}

} // namespace memleax
