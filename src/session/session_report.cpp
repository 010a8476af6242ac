// SPDX-License-Identifier: GPL-3.0-or-later
// The report of a session, and its exit status.
#include <fmt/format.h>

#include "mapping_check.hpp"
#include "memleax/base/log.hpp"
#include "memleax/events/process_end.hpp"
#include "memleax/session/session.hpp"
#include "report_assembler.hpp"

namespace memleax {

namespace {

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

void Session::check_mappings() {
    const TrackedMemory& tracked = options_.allocators->tracked();
    if (tracked.any_mapped() && phase_ == Phase::watching) {
        look_at_mappings(accounts_, tracked);
    }
}

void Session::look_at_memory() {
    if (phase_ == Phase::watching) { // else nobody tells us that a process has ended
        memory_.look(now());
    }
}

void Session::bring_up_to_date() {
    watcher_.bring_up_to_date();
    for (ProcessAccount* process : accounts_.all()) {
        process->forget_old_heap();
    }
}

Report Session::make_report() {
    check_mappings();
    look_at_memory();
    return ReportAssembler(options_, accounts_, filter_, wrappers_, clock_)
        .assemble({.expire_s = expire_s(),
                   .end_reason = end_reason_ != nullptr ? end_reason_ : "",
                   .memory = memory_.samples(),
                   .several = several_,
                   .has_looked_at_heaps = has_looked_at_heaps_});
}

void Session::save_report(const ThresholdPassed& passed) {
    bring_up_to_date();
    Report report = make_report();
    report.session.saved_because = passed.why;
    const auto path = threshold_reports_.save(report, passed);
    if (!path) {
        log_error("{}", path.error().message());
        failed_ = true;
        return;
    }
    announce(fmt::format("{} saved as {}", *path, passed.why));
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
    output_.finish();
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
