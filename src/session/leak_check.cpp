// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/leak_check.hpp"

#include <utility>

#include <fmt/format.h>

#include "arch.hpp"
#include "chosen_processes.hpp"
#include "memleax/analysis/reachability.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/spare_descriptors.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/report/leak_check_report.hpp"
#include "memleax/session/report_output.hpp"

namespace memleax {

namespace {

/// Looked at before anything is touched.
Result<Tid> process_to_check(const SessionOptions& options) {
    if (auto enough = check_descriptors(); !enough) {
        return std::move(enough).error();
    }
    const auto pids = chosen_processes(options);
    if (!pids) {
        return pids.error();
    }
    if (pids->size() != 1) {
        return Error("--leak-check looks at one process: give one PID");
    }
    const Tid pid = pids->front();
    const auto info = check_watchable(pid);
    if (!info) {
        return info.error();
    }
    if (info->state == 'T') {
        return Error(fmt::format("cannot check process {} ({}): it is stopped by a signal",
                                 pid.value(), info->comm))
            .with_advice("let it go on first (kill -CONT)");
    }
    return pid;
}

LeakCheckReport report_of(Tid pid, const HeapSnapshot& snapshot) {
    LeakCheckReport report;
    report.version = MEMLEAX_VERSION;
    report.pid = pid.value();
    report.exe = executable_path(pid);
    report.arch = arch::kName;
    report.threads = snapshot.threads;
    report.pause_s = seconds(snapshot.pause_ns);
    report.complete = snapshot.complete;
    report.why = snapshot.why;
    if (snapshot.complete) {
        const Reachability reachability = classify(snapshot.graph);
        report.totals = reachability.totals;
        report.records = leak_records(snapshot.graph.blocks, reachability.classes);
    }
    return report;
}

} // namespace

int run_leak_check(const SessionOptions& options) {
    const auto pid = process_to_check(options);
    if (!pid) {
        log_error("{}", pid.error().message());
        return 1;
    }
    auto output = ReportOutput::open(options.output);
    if (!output) {
        log_error("{}", output.error().message());
        return 1;
    }
    const auto snapshot = take_heap_snapshot(*pid);
    if (!snapshot) {
        log_error("{}", snapshot.error().message());
        return 1;
    }
    const LeakCheckReport report = report_of(*pid, *snapshot);
    options.format->write_leak_check(report, *output);
    if (output->error() != 0) {
        log_error("{}", Error("cannot write the report", output->error()).message());
        return 1;
    }
    if (!report.complete) {
        return 1;
    }
    return report.total(LossClass::definite).blocks > 0 ? options.error_exitcode : 0;
}

} // namespace memleax
