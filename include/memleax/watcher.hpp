// SPDX-License-Identifier: GPL-3.0-or-later
/// The tracer thread: attaches, feeds a sink with events, leaves. Everything that may take long
/// (symbols, printing, the user) happens in other threads, so that the target never waits for it.
#pragma once

#include <atomic>
#include <csignal>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "memleax/allocation_event.hpp"
#include "memleax/engine.hpp"
#include "memleax/error.hpp"
#include "memleax/guardian.hpp"
#include "memleax/inherited.hpp"
#include "memleax/modules.hpp"
#include "memleax/process_info.hpp"
#include "memleax/remote_memory.hpp"
#include "memleax/target.hpp"
#include "memleax/types.hpp"

namespace memleax {

/// What to watch, and how.
struct WatchRequest {
    Tid pid;                          ///< 0: start `command`
    std::vector<std::string> command; ///< with its arguments
    Inherited inherited;              ///< what the command starts with
    unsigned backtrace_limit = 50;
};

/// What is known of the target, once it is watched.
struct WatchedTarget {
    Tid pid;
    std::string executable;
    std::string comm;
    std::string engine;
    std::string arch;
    std::size_t threads = 0;
};

/// The watching of one target, in a thread of its own. The thread's end lets go of target threads
/// that sleep in the kernel, without waking them (ptrace binds to the tracer thread). After stop()
/// the same target can be watched again, by another start().
class Watcher final : EngineObserver {
  public:
    enum class State { starting, watching, failed, ended };

    /// `sink` is called from the tracer thread, under no lock of ours.
    Watcher(WatchRequest request, EventSink& sink);
    /// Stops and waits for the end.
    ~Watcher() override;
    Watcher(const Watcher&) = delete;
    Watcher& operator=(const Watcher&) = delete;

    void start();
    /// An eventfd that becomes readable when state() changes or new modules are there.
    [[nodiscard]] int changes_fd() const { return changes_; }
    void acknowledge_changes();
    [[nodiscard]] State state() const;
    /// With State::failed.
    [[nodiscard]] Error error() const;
    /// With State::watching and after.
    [[nodiscard]] WatchedTarget target() const;
    /// With State::ended.
    [[nodiscard]] EngineEnd end() const;

    /// Copies of the modules so far, and which of them is the program; nothing if there was no
    /// change since the last call.
    struct Modules {
        std::vector<std::shared_ptr<const Module>> all;
        std::shared_ptr<const Module> main;
    };
    [[nodiscard]] std::optional<Modules> take_modules();
    /// Leaves the target, if that has not happened, and waits until it is as it was.
    void stop();
    /// Asks for that and waits, but not for ever, and without a lock: for a signal handler, when
    /// this program is about to die. The tracer thread must not need what the dying one holds.
    void stop_in_emergency() noexcept;

  private:
    void run();
    Result<void> watch();
    /// Launches, or checks that we may seize what we are to watch; the latter gives null.
    Result<std::unique_ptr<Target>> prepare(bool again);
    Result<void> check_still_the_same(Tid pid, const std::optional<ProcessInfo>& looked_at);
    Result<void> read_modules(Tid pid, bool again);
    /// What a Target gets to note in what it changes.
    [[nodiscard]] std::shared_ptr<RecoveryRecord> new_record();
    void on_watching(std::size_t threads) override;
    void on_modules(const ModuleMap& modules) override;
    void change_state(State state);

    WatchRequest request_;
    EventSink& sink_;
    int changes_ = -1;
    std::unique_ptr<Guardian> guardian_; ///< null if it could not be started
    std::thread thread_;
    std::atomic<bool> stop_{false};
    std::atomic<bool> done_{false};

    // The tracer thread's, kept from one start() to the next.
    std::optional<RemoteMemory> memory_;
    std::optional<ModuleMap> module_map_;
    std::uint64_t start_time_ = 0; ///< of the process, see ProcessInfo

    mutable std::mutex mutex_; ///< guards what follows
    State state_ = State::starting;
    std::optional<Error> error_;
    WatchedTarget target_;
    EngineEnd end_ = EngineEnd::requested;
    std::optional<Modules> modules_;
};

/// A signal without meaning, to end a blocking wait in the tracer thread.
inline constexpr int kWakeSignal = SIGUSR2;

} // namespace memleax
