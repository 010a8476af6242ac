// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/leak_check.hpp"

#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "arch.hpp"
#include "chosen_processes.hpp"
#include "debug_options.hpp"
#include "heap_look.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/spare_descriptors.hpp"
#include "memleax/heap/heap_snapshot.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/report/leak_check_report.hpp"
#include "memleax/session/guardian.hpp"
#include "memleax/session/heap_view.hpp"
#include "memleax/session/process_account.hpp"
#include "memleax/session/report_output.hpp"
#include "memleax/target/other_guardians.hpp"
#include "memleax/target/remote_memory.hpp"
#include "session_signals.hpp"

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
        return Error("--leak-check looks at one process: give one PID, or --time as well");
    }
    if (auto usable = check_debug_options(options); !usable) {
        return std::move(usable).error();
    }
    const Tid pid = pids->front();
    const auto info = check_free(pid);
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

/// What the process is called and consists of, noted while it is there.
class LookedAt {
  public:
    LookedAt(Tid pid, const SessionOptions& options)
        : accounts_({}, options.debug_info, {options.debug_folders, nullptr}),
          account_(accounts_.add(pid, Tid())), memory_(RemoteMemory::open(pid)) {
        if (memory_) {
            ModuleMap modules(pid, *memory_);
            if (modules.refresh()) {
                account_.on_modules(modules);
            }
        }
    }

    /// Nothing was watched, so that the account has no call stacks.
    LeakFindings findings_of(HeapSnapshot snapshot) {
        HeapView heap(std::move(snapshot), account_.pid(), account_.tracker(), account_.names());
        LeakFindings found = heap.findings(0, {});
        found.types = heap.by_type();
        found.holders = heap.by_holder();
        return found;
    }

  private:
    ProcessAccounts accounts_;
    ProcessAccount& account_;
    Result<RemoteMemory> memory_;
};

/// Should memleax be killed, the guardian ends and reaps what was forked, and puts the thread back
/// that was forking.
class GuardianOnDemand final : public Caretaker {
  public:
    /// It is started here, as it cannot be in the tracer thread.
    explicit GuardianOnDemand(bool is_wanted) {
        if (is_wanted) {
            auto started = Guardian::start();
            if (started) {
                guardian_ = *std::move(started);
            } else {
                log_debug("{}", started.error().message());
            }
        }
    }
    RecoveryFile* take_duty() override {
        return guardian_ && guardian_->take_duty() ? &guardian_->file() : nullptr;
    }
    void leave_duty() override { guardian_->leave_duty(); }

  private:
    std::unique_ptr<Guardian> guardian_;
};

LeakCheckReport report_of(Tid pid, LookedAt& process, HeapSnapshot snapshot) {
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
        static_cast<LeakFindings&>(report) = process.findings_of(std::move(snapshot));
    }
    return report;
}

} // namespace

int run_leak_check(const SessionOptions& options, const SpawnAttributes& inherited) {
    std::optional<SignalsLetThrough> before_and_after(inherited.signal_mask); // the look
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
    LookedAt process(*pid, options);
    HeapOptions how = heap_options(options);
    GuardianOnDemand guardian(how.forks);
    how.caretaker = &guardian;
    before_and_after.reset();
    auto snapshot = take_heap_snapshot(*pid, how);
    before_and_after.emplace(inherited.signal_mask);
    if (!snapshot) {
        log_error("{}", snapshot.error().message());
        return 1;
    }
    const LeakCheckReport report = report_of(*pid, process, *std::move(snapshot));
    options.format->write_leak_check(report, *output);
    output->finish();
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
