// SPDX-License-Identifier: GPL-3.0-or-later
/// One process of a tree: what stays known of it, and its Watch while there is one.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "memleax/engine/watch.hpp"
#include "memleax/faults/fault_watch.hpp"
#include "memleax/supervise/process_tree.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

class WatchedProcess final : WatchObserver {
  public:
    /// `parent` is null for the first one.
    WatchedProcess(ProcessTree& tree, Tid pid, const WatchedProcess* parent);
    ~WatchedProcess() override;
    WatchedProcess(const WatchedProcess&) = delete;
    WatchedProcess& operator=(const WatchedProcess&) = delete;

    [[nodiscard]] Tid pid() const { return pid_; }
    [[nodiscard]] bool is_child() const { return parent_.value() != 0; }
    [[nodiscard]] Target* target() { return target_.get(); }
    [[nodiscard]] const ModuleMap& modules() const { return *modules_; }
    [[nodiscard]] bool has_ended() const { return ended_; }
    [[nodiscard]] std::uint64_t start_time() const { return start_time_; }

    /// Reads its modules and their symbols; nothing needs to be seized for that. Refuses what
    /// executes a translation of its code.
    Result<void> look();
    /// Has it begun another program since look()?
    [[nodiscard]] bool executes_another() const;
    [[nodiscard]] bool has_allocator() const;
    /// Has the dynamic linker not mapped anything yet? Its work will be watched.
    [[nodiscard]] bool is_starting() const;
    /// Is everything that will ever be mapped there already, as no dynamic linker is at work?
    [[nodiscard]] bool is_static() const;
    /// The reason why a process that has no allocator we know has none.
    [[nodiscard]] Error no_allocator() const;
    /// What went wrong, said in terms of its reason: a process that ends while it is looked at
    /// makes this or that fail.
    [[nodiscard]] Error explain(Error error) const;

    /// After look(). With a `gap`, some of what happened since the last time was not seen.
    Result<void> watch(std::unique_ptr<Target> target, bool gap);
    void on_silence();
    // As Watch's:
    std::int64_t on_tick();
    [[nodiscard]] bool needs_ticks() const;
    /// See ProcessTree::perform().
    Result<void> perform(TargetState state, const TargetWork& work);
    /// `alone`: see Watch.
    void begin_to_leave(bool alone);
    [[nodiscard]] bool is_ready_to_leave() const;
    void leave();
    /// After leave(): the threads that sleep go with the tracer thread.
    void forget_target();
    /// After a failure: nobody will watch it.
    void give_up() const;
    /// It was gone when it was to be watched again.
    void note_end() { on_ended(std::nullopt); }

  private:
    void on_watching(std::size_t threads) override;
    void on_modules(const ModuleMap& modules) override { keeper().on_modules(modules); }
    void on_leak_sanitizer() override { tree_.warn_of_leak_sanitizer(pid_); }
    void before_modules_change() override { tell_faults(false); }
    void before_pages_go() override { tell_faults(false); }
    void on_engine_changed() override { keeper().on_engine(watch_->engine_name()); }
    void on_stopped(bool stopped) override { keeper().on_stopped(stopped); }
    bool on_exec() override;
    bool take_child(Tid child, ChildOrigin origin) override;
    void on_ended(std::optional<int> status) override;
    Result<void> read_modules();
    [[nodiscard]] std::set<std::string> mapped_libraries() const;
    Result<void> begin_faults();
    /// Those that have happened. True: there are many. `is_last`: there will be no more.
    bool tell_faults(bool is_last);
    void end_copy();
    /// What comes in from now on is counted by itself.
    void tell_resident_before();
    [[nodiscard]] std::optional<ResidentMemory> resident_memory() const;
    ProcessKeeper& keeper();
    void tell_program();

    ProcessTree& tree_;
    Tid pid_;
    Tid parent_; ///< 0: it is the first one
    ProcessKeeper* keeper_ = nullptr;
    std::uint64_t start_time_ = 0; ///< tells a pid that was given anew
    std::string program_;          ///< see program_identity()
    const ModuleMap* relative_;    ///< the parent's, until the first look()
    std::optional<RemoteMemory> memory_;
    std::optional<ModuleMap> modules_;
    std::unique_ptr<Target> target_;
    std::unique_ptr<Watch> watch_;       ///< goes before its target
    std::unique_ptr<FaultWatch> faults_; ///< with --track faults
    bool armed_ = false;                 ///< all is in place
    bool was_stopped_ = false;           ///< before we came
    bool announced_ = false; ///< with `several`: the user has been told that it is watched
    bool ended_ = false;
};

} // namespace memleax
