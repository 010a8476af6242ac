// SPDX-License-Identifier: GPL-3.0-or-later
// What a session knows, as a report.
#include <algorithm>

#include "memleax/base/log.hpp"
#include "memleax/events/process_end.hpp"
#include "memleax/report/fill_report.hpp"
#include "memleax/session/session.hpp"
#include "report_modules.hpp"

namespace memleax {

namespace {

/// Those of a child are mostly its parent's.
void add_modules(std::vector<Report::Module> modules, Report* report) {
    for (Report::Module& module : modules) {
        if (std::find(report->modules.begin(), report->modules.end(), module) ==
            report->modules.end()) {
            report->modules.push_back(std::move(module));
        }
    }
}

/// The wider kinds have all that the narrower ones have.
bool has_errors(const Report& report, ErrorsFor kind) {
    const Report::Totals& totals = report.totals;
    const bool has_lost =
        report.leak_check && report.leak_check->total(LossClass::definite).blocks > 0;
    switch (kind) {
    case ErrorsFor::lost:
        return has_lost;
    case ErrorsFor::leaking:
        return has_lost || totals.leaking_stacks > 0;
    case ErrorsFor::suspect:
        return has_lost || totals.suspect_stacks > 0;
    case ErrorsFor::expired:
        return has_lost || totals.expired.blocks > 0;
    }
    return true;
}

} // namespace

Report Session::make_report() {
    look_at_mappings();
    Report report;
    report.version = MEMLEAX_VERSION;
    if (const ProcessAccount* first = accounts_.first()) {
        const ProcessFacts target = first->facts();
        report.target = {target.pid.value(), target.executable, target.arch, target.threads};
        report.session.engine = target.engine;
    }
    report.follows_forks = several_;
    report.checks = options_.check;
    report.session.duration_s = watched_s();
    report.session.expire_s = expire_s();
    report.session.end_reason = end_reason_ != nullptr ? end_reason_ : "";
    report.session.started_unix_ns = started_unix_ns_;
    report.memory = memory_.samples();
    for (ProcessAccount* process : accounts_.all()) {
        add_to_report(*process, &report);
    }
    return report;
}

void Session::add_to_report(ProcessAccount& process, Report* report) {
    const ProcessFacts facts = process.facts();
    Report::Process described;
    described.number = facts.number;
    described.pid = facts.pid.value();
    described.parent = facts.parent.value();
    described.comm = facts.comm;
    described.exe = facts.executable;
    described.begin_s = facts.watched ? seconds_since_start(*facts.watched) : 0;
    if (facts.ended) {
        described.end_s = seconds_since_start(*facts.ended);
    }
    described.status = facts.status;
    report->processes.push_back(std::move(described));
    if (options_.allocators->tracked().any_mapped()) {
        add_mapped(process.tracker().with([](Tracker& t) { return t.mapped_totals(); }),
                   process.unexplained(), report);
    }
    StackNames& names = process.names();
    add_modules(report_modules(names.modules(), names.main()), report);
    const TrackerSnapshot snapshot = process.tracker().snapshot(process.time(now()));
    fill_report(
        snapshot, watching_since_.value_or(now()),
        [&names](StackId id) { return names.resolve(id); },
        [this](const Backtrace& frames) { return filter_.shows(frames); }, report,
        process.heap() != nullptr ? process.heap()->stack_findings() : StackFindings{});
    add_leak_check(process, report);
}

int Session::write_report() {
    const Report report = make_report();
    for (ProcessAccount* process : accounts_.all()) {
        const std::uint64_t missed =
            process->tracker().with([](Tracker& tracker) { return tracker.missed_frees(); });
        if (missed != 0) {
            log_debug("{} blocks of process {} were freed without our seeing it", missed,
                      process->pid().value());
        }
    }
    options_.format->write(report, output_);
    if (output_.error() != 0) {
        log_error("{}", Error("cannot write the report", output_.error()).message());
        return 1;
    }
    const bool is_wrong = options_.check && !report.errors.empty();
    if (options_.error_exitcode != 0 && (has_errors(report, options_.errors_for) || is_wrong)) {
        return options_.error_exitcode;
    }
    if (options_.errors_for == ErrorsFor::lost && report.leak_check &&
        !report.leak_check->complete) {
        return 1; // nobody knows
    }
    // As env(1) and strace(1) do; 0 if it was left while it ran.
    const auto ended = options_.command.empty() ? std::nullopt : accounts_.first()->facts().status;
    return ended ? shell_status(*ended) : 0;
}

} // namespace memleax
