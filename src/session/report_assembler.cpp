// SPDX-License-Identifier: GPL-3.0-or-later
#include "report_assembler.hpp"

#include <algorithm>
#include <utility>

#include "memleax/base/clock.hpp"
#include "memleax/report/fill_report.hpp"
#include "memleax/session/fault_view.hpp"
#include "memleax/session/probe_view.hpp"
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

/// `is_tried`: somebody has looked, or tried to.
void add_leak_check(ProcessAccount& process, bool is_tried, MonotonicNs now, Report* report) {
    if (process.heap() == nullptr && !is_tried) {
        return;
    }
    const auto index = static_cast<std::uint32_t>(report->processes.size() - 1);
    LeakFindings found;
    if (process.heap() != nullptr) {
        HeapView& heap = *process.heap();
        const std::vector<bool> gone = heap.gone(); // since that look
        found = heap.findings(index, gone);
        found.types = heap.by_type(gone);
        found.holders = heap.by_holder();
        found.age_s = std::max(seconds(now.value() - heap.snapshot().time.value()), 0.0);
    }
    found.why = process.heap_problem(); // of the last look, where it has failed
    if (report->follows_forks) {
        std::vector<LeakRecord> records = std::exchange(found.records, {});
        report->processes.back().leak_check = found;
        found.records = std::move(records);
        found.common_offset.reset();
    }
    if (!report->leak_check) {
        report->leak_check = std::move(found);
        return;
    }
    LeakFindings& all = *report->leak_check;
    all.pause_s += found.pause_s;
    if (found.age_s) {
        all.age_s = std::max(all.age_s.value_or(0), *found.age_s);
    }
    if ((!found.complete && all.complete) || all.why.empty()) {
        all.why = found.why;
    }
    all.complete = all.complete && found.complete;
    all.unread = all.unread.empty() ? found.unread : all.unread;
    all.unlisted = all.unlisted.empty() ? found.unlisted : all.unlisted;
    for (std::size_t i = 0; i < all.totals.size(); ++i) {
        all.totals.at(i) = all.totals.at(i) + found.totals.at(i);
    }
    add_counts(found.types, &all.types);
    add_counts(found.holders, &all.holders);
    all.records.insert(all.records.end(), std::make_move_iterator(found.records.begin()),
                       std::make_move_iterator(found.records.end()));
}

} // namespace

Report ReportAssembler::assemble(const Facts& facts) const {
    Report report;
    report.version = MEMLEAX_VERSION;
    if (const ProcessAccount* first = processes_.first()) {
        const ProcessFacts target = first->facts();
        report.target = {target.pid.value(), target.executable, target.arch, target.threads};
        report.session.engine = target.engine;
        report.session.unwinder = target.engine.empty() ? "" : name_of(options_.unwinder);
    }
    report.name_style = options_.name_style;
    report.follows_forks = facts.several;
    report.checks = options_.check;
    report.session.duration_s = clock_.seconds_since_begin(clock_.now());
    report.session.expire_s = facts.expire_s;
    report.session.end_reason = facts.end_reason;
    report.session.started_unix_ns = clock_.begun_unix_ns();
    report.memory = facts.memory;
    for (ProcessAccount* process : processes_.all()) {
        add(*process, options_.leak_check && facts.has_looked_at_heaps, &report);
    }
    sort_report(&report);
    return report;
}

void ReportAssembler::add(ProcessAccount& process, bool has_looked_at_heap, Report* report) const {
    process.forget_old_heap();
    const ProcessFacts facts = process.facts();
    Report::Process described;
    described.number = facts.number;
    described.pid = facts.pid.value();
    described.parent = facts.parent.value();
    described.comm = facts.comm;
    described.exe = facts.executable;
    // Those that were there before are watched one after the other, and the watching begins with
    // the last of them: one may have ended before.
    const auto seconds = [this](MonotonicNs time) {
        return std::max(clock_.seconds_since_begin(time), 0.0);
    };
    described.begin_s = facts.watched ? seconds(*facts.watched) : 0;
    if (facts.ended) {
        described.end_s = seconds(*facts.ended);
    }
    described.status = facts.status;
    described.looks = process.memory();
    report->processes.push_back(std::move(described));
    report->session.stops += process.stops();
    if (options_.allocators->tracked().any_mapped()) {
        add_mapped(process.tracker().with([](Tracker& t) { return t.mapped_totals(); }),
                   process.unexplained(), report);
    }
    StackNames& names = process.names();
    add_modules(report_modules(names.modules(), names.main()), report);
    const TrackerSnapshot snapshot = process.tracker().snapshot(process.time(clock_.now()));
    fill_report(
        snapshot, clock_.begun().value_or(clock_.now()),
        [&names](StackId id) { return names.resolve(id); },
        [this](const Backtrace& frames) { return filter_.shows(frames); }, wrappers_.find(process),
        report, process.heap() != nullptr ? process.heap()->stack_findings() : StackFindings{});
    add_leak_check(process, has_looked_at_heap, clock_.now(), report);
    if (options_.allocators->tracked().faults) {
        if (!report->page_faults) {
            report->page_faults.emplace();
        }
        add_page_faults(process, static_cast<std::uint32_t>(report->processes.size() - 1), filter_,
                        &*report->page_faults);
    }
    if (!options_.allocators->probes().empty()) {
        if (!report->probes) {
            report->probes.emplace();
        }
        add_probes(process, static_cast<std::uint32_t>(report->processes.size() - 1), filter_,
                   &*report->probes);
    }
}

} // namespace memleax
