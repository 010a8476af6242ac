// SPDX-License-Identifier: GPL-3.0-or-later
/// The processes that are watched: one or some, and with `follow` or `children` theirs.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memleax/allocators/allocator_search.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/engine/watch.hpp"
#include "memleax/events/event_sink.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/supervise/target_request.hpp"
#include "memleax/supervise/tick_pace.hpp"
#include "memleax/symbols/debug_sources.hpp"
#include "memleax/target/spawn_attributes.hpp"
#include "memleax/target/target.hpp"
#include "memleax/unwind/unwinder_choice.hpp"

namespace memleax {

/// Why the watching stopped.
enum class WatchEnd {
    requested,   ///< somebody set the stop flag
    target_gone, ///< the last process ended
};

/// The program that a process runs.
struct ProgramFacts {
    std::string executable;
    std::string comm;
    std::string engine; ///< that watches it
};

/// Somebody who keeps what is found in one process. Called from the tracer thread.
class ProcessKeeper {
  public:
    virtual ~ProcessKeeper() = default;
    virtual AccountAccess account() = 0;
    /// It could not be watched, and others are.
    virtual void on_given_up() = 0;
    /// At the begin, and after each exec.
    virtual void on_program(ProgramFacts program) = 0;
    /// ProgramFacts::engine is another one from now on.
    virtual void on_engine(std::string engine) = 0;
    /// Every breakpoint is in place; once, and again after each gap.
    virtual void on_watching(std::size_t threads) = 0;
    virtual void on_modules(const ModuleMap& modules) = 0;
    /// Job control has stopped it, or has let it go on.
    virtual void on_stopped(bool stopped) = 0;
    /// With its status (as from waitpid), if that is known.
    virtual void on_ended(std::optional<int> status) = 0;
};

class WatchedProcess;

/// Its methods are called in the tracer thread, but from one watching to the next that may be
/// another one.
class ProcessTree {
  public:
    struct Options {
        unsigned backtrace_limit = 50;
        bool follow = false;                            ///< watch child processes that come, too
        bool children = false;                          ///< and those that are there
        bool several = false;                           ///< tell when one of them ends
        std::shared_ptr<const AllocatorApi> allocators; ///< what is watched; never null
        DebugSources debug_sources;                     ///< where its names may be, too
        std::string debug_file;                         ///< the program's (-d), or ""
        bool check = false;                             ///< see FollowOptions
        EngineChoice engine = EngineChoice::int3;
        UnwinderChoice unwinder = UnwinderChoice::own;
    };
    class Host {
      public:
        virtual ~Host() = default;
        /// Who keeps what is found in this process; must outlive the tree. `parent` is 0 for the
        /// first one.
        virtual ProcessKeeper& keeper(Tid pid, Tid parent) = 0;
        /// All are being watched, for the first time or again; once more for each that comes.
        virtual void on_watching() = 0;
        /// Around each look at what was recorded without stops (TickTimer).
        virtual void before_tick() = 0;
        virtual void after_tick() = 0;
        /// No stop is in hand: the time for perform().
        virtual void between_stops() = 0;
    };
    ProcessTree(Host& host, const Options& options);
    ~ProcessTree();
    ProcessTree(const ProcessTree&) = delete;
    ProcessTree& operator=(const ProcessTree&) = delete;

    /// One of these begins a watching; after a failure there is none. `tracer` must live until
    /// leave(). launch() and attach() come first, resume() after each leave().
    Result<void> launch(Tracer& tracer, const std::vector<std::string>& command,
                        const SpawnAttributes& inherited);
    /// With several processes those that cannot be watched are told of, if another one can. The
    /// ones that are watched already go on meanwhile. Begins with no more once `stop` is set.
    Result<void> attach(Tracer& tracer, const std::vector<Tid>& pids,
                        const std::atomic<bool>& stop);
    /// Those that have not ended since; the same holds.
    Result<void> resume(Tracer& tracer, const std::atomic<bool>& stop);

    [[nodiscard]] bool empty() const { return processes_.empty(); }
    /// Sends events until `stop` is set or all have ended. A signal to the calling thread, with a
    /// handler that does nothing, makes it look at `stop`.
    /// An error if the last one was let go of, as what it executes cannot be watched.
    Result<WatchEnd> run(Tracer& tracer, const std::atomic<bool>& stop);
    /// Within run(), between stops. ESRCH: this process is not being watched; else see
    /// stop_all_and_defer() and borrow_thread(). The work has not been done then.
    Result<void> perform(Tid pid, TargetState state, const TargetWork& work);
    /// Lets go of all, as Engine::leave() does.
    void leave();

  private:
    friend class WatchedProcess;
    WatchedProcess& add(Tid pid, const WatchedProcess* parent);
    [[nodiscard]] WatchedProcess* find(Tid pid) const; ///< null: it is none of these
    /// If it began at `start_time` (ProcessInfo's), where one is given.
    Result<void> attach_one(Tracer& tracer, Tid pid, const WatchedProcess* parent,
                            std::optional<std::uint64_t> start_time, const std::atomic<bool>& stop);
    /// Those that are there, until there are no more; what cannot be watched is added to
    /// `problems`.
    void attach_children(Tracer& tracer, const std::atomic<bool>& stop,
                         std::vector<Error>* problems);
    /// The stops that wait, for a moment: between one process that is begun with and the next.
    void handle_waiting_stops(Tracer& tracer, const std::atomic<bool>& stop);
    /// Where no stop is in hand: while one process is waited for, the stops of the others are dealt
    /// with, and its own if they may be. `stop` ends such a wait.
    [[nodiscard]] Tracer::Meanwhile serving(Tracer& tracer, const std::atomic<bool>& stop);
    void on_watching();
    /// Looks at it, seizes it and watches it. With a `gap`, it was watched before.
    /// If it began at `start_time`.
    Result<void> begin(Tracer& tracer, WatchedProcess& process, std::uint64_t start_time, bool gap,
                       const std::atomic<bool>& stop);
    bool take_child(WatchedProcess& parent, Tid child, bool forked);
    /// It is being let go of, as what it executes now cannot be watched: told at once, or in the
    /// end if there is nothing else to watch.
    void on_unwatchable(const WatchedProcess& process, Error why);
    /// Once, for the first process that has it.
    void warn_of_leak_sanitizer(Tid pid);
    /// Those that have ended are not needed any more, but for what their keepers know.
    void sweep();
    /// Of the engine's, or for a while.
    [[nodiscard]] bool needs_ticks() const;
    [[nodiscard]] bool is_ready_to_leave();
    /// If it is time for one.
    void tick();

    Host& host_;
    Options options_;
    AllocatorSearch search_;
    std::vector<std::unique_ptr<WatchedProcess>> processes_;
    Tracer::Meanwhile meanwhile_; ///< within run(): see serving()
    Tracer* tracer_ = nullptr;    ///< within run()
    bool running_ = false;        ///< children are followed only then
    bool beginning_ = false;      ///< with several: `watching_` waits for the others
    bool watching_ = false;
    bool any_ended_ = false; ///< since the last sweep
    bool told_of_leak_sanitizer_ = false;
    std::optional<Error> unwatchable_; ///< why the last one is let go of
    TickPace pace_;
};

} // namespace memleax
