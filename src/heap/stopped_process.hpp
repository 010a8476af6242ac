// SPDX-License-Identifier: GPL-3.0-or-later
/// A process whose threads all stand still, for as long as this lives. Nothing of it is changed,
/// and system calls that were interrupted go on or begin again, as after an attach.
#pragma once

#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "held_process.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/error.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"
#include "memleax/target/tracer.hpp"

namespace memleax {

class StoppedProcess final : public HeldProcess {
  public:
    /// Waits for a moment at which no thread is in a transfer that a stop would cut short; EBUSY if
    /// there is none. EAGAIN: a thread cannot be stopped now. The calling thread's end belongs to
    /// letting go, as with any Target. `records`: where it is noted what is changed, if anything
    /// is to be; null if nothing.
    static Result<std::unique_ptr<StoppedProcess>> stop(Tid pid, RecoveryFile* records);
    ~StoppedProcess() override;

    [[nodiscard]] Target& target() override { return *target_; }
    [[nodiscard]] const std::vector<Tid>& threads() const override { return threads_; }
    void keep_copy(std::shared_ptr<ProcessCopy> copy) override { copy_ = std::move(copy); }
    /// Ends the copy, if there is one, and has the process, which has been let go of, reap it.
    void end_copy();
    [[nodiscard]] MonotonicNs since() const { return since_; }
    /// Lets all threads go on. Idempotent; returns how long the first has stood still.
    std::int64_t let_go();

  private:
    StoppedProcess(Tid pid, RecoveryFile* records) : pid_(pid), tracer_(records) {}
    Result<void> let_run(std::span<const Tid> threads, int us) override;
    Result<void> stop_all();
    /// What comes before all are stopped; see Tracer::Meanwhile.
    bool serve(const Target* but, std::int64_t ns);
    void let_go_on(const StopEvent& event);
    Result<void> stop_running();
    Result<void> stop_once(const std::vector<Tid>& running);
    Result<void> await_newborns();
    void send_late(std::vector<ThreadSignals::Late> late);
    [[nodiscard]] std::vector<Tid> running() const;

    Tid pid_;
    Tracer tracer_;
    std::unique_ptr<Target> target_;
    std::vector<Tid> threads_;
    std::shared_ptr<ProcessCopy> copy_;
    MonotonicNs since_;
    bool executes_another_ = false; ///< since it was seized
    std::int64_t stood_ns_ = 0;
};

} // namespace memleax
