// SPDX-License-Identifier: GPL-3.0-or-later
/// One run of memleax, from the command line's meaning to the exit status.
#pragma once

#include <atomic>
#include <memory>
#include <optional>

#include "memleax/report/report.hpp"
#include "memleax/session/memory_sampler.hpp"
#include "memleax/session/process_account.hpp"
#include "memleax/session/report_output.hpp"
#include "memleax/session/session_client.hpp"
#include "memleax/session/session_clock.hpp"
#include "memleax/session/session_options.hpp"
#include "memleax/session/session_printer.hpp"
#include "memleax/session/stack_filter.hpp"
#include "memleax/session/stop_sampler.hpp"
#include "memleax/session/threshold_reports.hpp"
#include "memleax/session/threshold_watch.hpp"
#include "memleax/session/watcher.hpp"
#include "memleax/session/wrapper_search.hpp"
#include "memleax/symbols/debuginfod.hpp"
#include "memleax/target/spawn_attributes.hpp"

namespace memleax {

class SignalReader;

/// Watches a target and prints live lines and the final report. Everything but run() is for the
/// client, and is called from within run(), in the main thread.
class Session {
  public:
    enum class Phase {
        starting, ///< not every breakpoint is in place
        watching,
        paused, ///< the target is as it was, for now
        left    ///< the target is as it was, or has ended
    };

    /// Opens what can fail without the target, before it is touched. `options` and `inherited` must
    /// outlive the session.
    static Result<std::unique_ptr<Session>> open(const SessionOptions& options,
                                                 const SpawnAttributes& inherited);
    Session(const Session&) = delete;
    Session& operator=(const Session&) = delete;

    /// Returns the exit status: 0, 1 after an error (told on stderr), or options.error_exitcode if
    /// there is what options.errors_for names. The target is as it was when this returns. `client`
    /// may be null.
    int run(SessionClient* client);

    [[nodiscard]] Phase phase() const { return phase_; }
    [[nodiscard]] const SessionOptions& options() const { return options_; }
    [[nodiscard]] const SpawnAttributes& inherited() const { return inherited_; }
    [[nodiscard]] ProcessAccounts& processes() { return accounts_; }
    /// May there be more than one? Then what is told says of which.
    [[nodiscard]] bool has_several() const { return several_; }
    /// The one that commands are about: the first, if nobody has chosen another. Not before the
    /// first watching.
    [[nodiscard]] ProcessAccount& process() const {
        return chosen_ ? *chosen_ : *accounts_.first();
    }
    void choose_process(ProcessAccount& process) { chosen_ = &process; }
    [[nodiscard]] ProcessFacts target() const { return process().facts(); }
    /// The time of what is known: stands still when nobody watches.
    [[nodiscard]] MonotonicNs now() const { return clock_.now(); }
    /// The same, of the process that commands are about.
    [[nodiscard]] MonotonicNs process_time() const { return process().time(now()); }
    /// To be called before something is said of the accounts; see Watcher.
    void bring_up_to_date();
    /// Looks anew at whose memory is short (ProcessAccount::memory()); only while watching.
    void look_at_memory();
    /// The memory of all of them, over time.
    [[nodiscard]] const std::vector<Report::MemorySample>& memory() const {
        return memory_.samples();
    }
    /// Since the first time that every breakpoint was in place.
    [[nodiscard]] double watched_s() const { return seconds_since_start(now()); }
    [[nodiscard]] double seconds_since_start(MonotonicNs time) const {
        return clock_.seconds_since_begin(time);
    }
    [[nodiscard]] double expire_s() const { return seconds(expire_ns_); }
    void set_expire_s(double seconds);

    [[nodiscard]] SharedTracker& tracker() { return process().tracker(); }
    [[nodiscard]] StackNames& names() { return process().names(); }
    [[nodiscard]] StackFilter& filter() { return filter_; }
    /// Does the user want to see this call stack?
    [[nodiscard]] bool shows(StackId id);
    /// The functions of this process that a call stack is not named by. Good until the next call.
    [[nodiscard]] const Wrappers& wrappers(ProcessAccount& process) {
        return wrappers_.find(process);
    }
    /// Are calls that map memory printed as they happen?
    void set_live_events(bool live) { printer_.set_live_events(live); }
    /// All that is known, now.
    [[nodiscard]] Report make_report();
    /// Looks at the heap of a process that is being watched; what is found stays in
    /// ProcessAccount::heap(). An Error says why there is nothing new.
    Result<HeapView*> look_at_heap(ProcessAccount& process);

    /// Has the next call with this stack walked by both unwinders, until the result is let go of.
    /// An Error says why not.
    Result<std::shared_ptr<StackComparison>> compare_walks(ProcessAccount& process, StackId stack);

    /// Takes every breakpoint out; only while watching. The target runs as before.
    void pause();
    /// Puts them in again; on_watching() or on_failure() of the client tells how that went. What
    /// was live before is not followed any more, as its end may have been missed.
    void resume();
    /// Lets go of the target for good. `reason` is the report's end_reason.
    void leave(const char* reason);
    /// Leaves, and ends the loop.
    void end(const char* reason);

  private:
    Session(const std::vector<Tid>& pids, const SessionOptions& options, ReportOutput output,
            const SpawnAttributes& inherited);
    bool on_download();
    void step();
    void on_signals();
    void on_change();
    void on_first_watching();
    [[nodiscard]] bool is_overdue() const;
    void leave_by_signal_reader();
    void begin_leaving(const char* reason);
    /// An end has been decided on, and the client has nothing left to do before.
    [[nodiscard]] bool is_about_to_leave();
    void finish_leaving();
    /// With --leak-check, before the target is let go of.
    void look_at_heaps();
    void expire(MonotonicNs now);
    /// Processes that have ended cost nothing from step to step once all has been told of them.
    void retire_ended();
    /// Hears what the trackers have to tell, and prints it, unless that has to wait.
    void print_news();
    void set_client(SessionClient* client);
    /// Compares what is mapped with what we have seen; while the target is being watched.
    void check_mappings();
    [[nodiscard]] int pause_ms(MonotonicNs now);
    int write_report();
    /// What --at-memory and --at-pressure are for.
    void save_report(const ThresholdPassed& passed);

    const SessionOptions& options_;
    const SpawnAttributes& inherited_;
    bool several_; ///< more than one process may be watched
    ReportOutput output_;
    std::shared_ptr<Debuginfod> debuginfod_; ///< null: DEBUGINFOD_URLS is not set
    std::int64_t expire_ns_;
    SessionClock clock_;
    ProcessAccounts accounts_;
    ProcessAccount* chosen_ = nullptr;
    StackFilter filter_;
    WrapperSearch wrappers_;
    Watcher watcher_;
    SessionPrinter printer_;
    MemorySampler memory_;
    StopSampler stops_;
    ThresholdWatch thresholds_;
    ThresholdReports threshold_reports_;
    SessionClient* client_ = nullptr;
    SignalReader* signals_ = nullptr; ///< of run()
    Phase phase_ = Phase::starting;
    std::optional<MonotonicNs> deadline_;
    // While this thread waits for a reader, SignalReader's has the target left.
    std::atomic<std::int64_t> leave_at_{INT64_MAX}; ///< at this monotonic time, ...
    std::atomic<std::int64_t> left_at_{0};          ///< ... and did at that; 0: it has not
    const char* end_reason_ = nullptr; ///< set: the target is being let go of, or has been
    bool ending_ = false;              ///< ... and the loop ends then
    bool failed_ = false;              ///< the watching broke off, or a report was not saved
    bool has_looked_at_heaps_ = false;
    bool over_ = false;
};

/// Blocks the signals that a session reads from a descriptor, in this thread and those it will
/// make; ignores those that a lost reader or terminal sends; raises the soft limit of open files,
/// as each module of the target is kept open. Returns what was before.
SpawnAttributes prepare_process();

} // namespace memleax
