// SPDX-License-Identifier: GPL-3.0-or-later
// What a session knows, as a report.
#include "memleax/fill_report.hpp"
#include "memleax/log.hpp"
#include "memleax/report_modules.hpp"
#include "memleax/session.hpp"

namespace memleax {

Report Session::make_report() {
    const WatchedTarget target = watcher_.target();
    Report report;
    report.version = MEMLEAX_VERSION;
    report.target = {target.pid.value(), target.executable, target.arch, target.threads};
    report.session.engine = target.engine;
    report.session.duration_s = watched_s();
    report.session.expire_s = expire_s();
    report.session.end_reason = end_reason_ != nullptr ? end_reason_ : "";
    report.session.started_unix_ns = started_unix_ns_;
    report.memory = memory_.samples();
    report.modules = report_modules(names_.modules(), names_.main());
    const TrackerSnapshot snapshot = tracker_.snapshot(now());
    fill_report(
        snapshot, watching_since_.value_or(now()),
        [this](StackId id) { return names_.resolve(id); },
        [this](const Backtrace& frames) { return filter_.shows(frames); }, &report);
    return report;
}

int Session::write_report() {
    const Report report = make_report();
    const std::uint64_t missed =
        tracker_.with([](Tracker& tracker) { return tracker.missed_frees(); });
    if (missed != 0) {
        log_debug("{} blocks were freed without our seeing it", missed);
    }
    options_.format->write(report, output_);
    if (output_.error() != 0) {
        log_error("{}", Error("cannot write the report", output_.error()).message());
        return 1;
    }
    return report.totals.expired.blocks > 0 ? options_.error_exitcode : 0;
}

} // namespace memleax
