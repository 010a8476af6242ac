// SPDX-License-Identifier: GPL-3.0-or-later
/// The tracer thread: attaches, feeds a sink with events, leaves. Everything that may take long
/// (symbols, printing, the user) happens in other threads, so that the target never waits for it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/session/guardian.hpp"
#include "memleax/session/process_account.hpp"
#include "memleax/supervise/process_tree.hpp"
#include "memleax/target/spawn_attributes.hpp"

namespace memleax {

/// What to watch, and how.
struct WatchRequest {
    std::vector<Tid> pids;            ///< none: start `command`
    std::vector<std::string> command; ///< with its arguments
    SpawnAttributes inherited;        ///< what the command starts with
    ProcessTree::Options options;
};

/// The watching of one target (and its children), in a thread of its own. The thread's end lets go
/// of target threads that sleep in the kernel, without waking them (ptrace binds to the tracer
/// thread). After stop() the same target can be watched again, by another start().
class Watcher final : ProcessTree::Host {
  public:
    enum class State { starting, watching, failed, ended };

    /// What is found goes into `accounts`, from the tracer thread, under no lock of ours.
    Watcher(WatchRequest request, ProcessAccounts& accounts);
    /// Stops and waits for the end.
    ~Watcher() override;
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    void start();
    /// An eventfd that becomes readable when state() changes.
    [[nodiscard]] int changes_fd() const { return changes_; }
    void acknowledge_changes();
    [[nodiscard]] State state() const;
    /// With State::failed.
    [[nodiscard]] Error error() const;
    /// With State::ended.
    [[nodiscard]] WatchEnd end() const;

    /// Waits until all that has happened in the target by now has been told to the accounts: some
    /// milliseconds with an engine that tells late, none with another.
    void bring_up_to_date();
    /// With a process in this state, has the tracer thread do this work, and waits until it is
    /// done; then the process goes on. While State::watching; otherwise, and if it ends before the
    /// request's turn has come, ESRCH. See ProcessTree::perform() for other Errors; where the work
    /// throws, the Error says what.
    Result<void> perform(Tid pid, TargetState state, const TargetWork& work);
    /// Has the target left, and does not wait: no request is served from now on. From any thread;
    /// again until is_done(), or stop() is to follow, which makes sure of it.
    void begin_stop();
    /// No target is being watched, nor will be before the next start().
    [[nodiscard]] bool is_done() const { return done_.load(); }
    /// Leaves the target, if that has not happened, and waits until it is as it was.
    void stop();
    /// Asks for that and waits, but not for ever, and without a lock: for a signal handler, when
    /// this program is about to die. The tracer thread must not need what the dying one holds, or
    /// the main one.
    void stop_in_emergency() noexcept;
    /// Is that the calling one?
    [[nodiscard]] bool is_tracer_thread() const noexcept;

  private:
    void run();
    Result<void> watch();
    Result<void> begin(Tracer& tracer);
    void leave() noexcept;
    ProcessKeeper& keeper(Tid pid, Tid parent) override { return accounts_.add(pid, parent); }
    void on_watching() override { change_state(State::watching); }
    void before_tick() override;
    void after_tick() override;
    void between_stops() override;
    Result<void> serve(Tid pid, TargetState state, const TargetWork& work);
    void change_state(State state);
    /// Of the main thread, one at a time.
    struct Request {
        Tid pid;
        TargetState state{};
        const TargetWork* work = nullptr;
        std::optional<Result<void>> result;
    };

    WatchRequest request_;
    ProcessAccounts& accounts_;
    int changes_ = -1;
    std::unique_ptr<Guardian> guardian_; ///< null if it could not be started
    std::thread thread_;
    std::atomic<bool> stop_{false};
    std::atomic<bool> done_{false};
    std::atomic<pid_t> tracer_tid_{0};
    std::atomic<bool> is_requested_{false}; ///< is there a request that nobody has begun?

    ProcessTree tree_; ///< the tracer thread's, kept from one start() to the next
    bool has_begun_ =
        false; ///< the tracer thread's: an empty tree is one whose processes have ended

    mutable std::mutex mutex_; ///< guards what follows
    std::condition_variable changed_;
    std::uint64_t asked_ = 0;    ///< how often somebody has asked to be brought up to date, ...
    std::uint64_t looking_ = 0;  ///< ... before this look began, ...
    std::uint64_t answered_ = 0; ///< ... and before the last one
    Request* request_of_main_ = nullptr;
    State state_ = State::starting;
    std::optional<Error> error_;
    WatchEnd end_ = WatchEnd::requested;
};

/// A signal without meaning, to end a blocking wait in the tracer thread.
inline constexpr int kWakeSignal = SIGUSR2;

} // namespace memleax
