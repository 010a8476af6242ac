// SPDX-License-Identifier: GPL-3.0-or-later
/// What is found in one process: the tracer thread writes, the main thread reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/heap/told_of_looks.hpp"
#include "memleax/proc/memory_look.hpp"
#include "memleax/proc/stopped_share.hpp"
#include "memleax/session/heap_view.hpp"
#include "memleax/session/module_mailbox.hpp"
#include "memleax/session/shared_tracker.hpp"
#include "memleax/session/stack_names.hpp"
#include "memleax/supervise/process_tree.hpp"

namespace memleax {

struct ProcessFacts {
    unsigned number = 1; ///< of the session's processes, as people see it
    Tid pid;
    Tid parent; ///< 0: nobody whom we watch
    std::string executable;
    std::string comm;
    std::string engine;
    std::string arch;
    bool stopped = false;               ///< by SIGSTOP or its kin, as far as that was told
    std::size_t threads = 0;            ///< when the watching began
    std::optional<MonotonicNs> watched; ///< since then every breakpoint is in place
    std::optional<MonotonicNs> ended;
    std::optional<int> status; ///< how, as from waitpid; absent: not known
};

class ProcessAccount final : public ProcessKeeper {
  public:
    ProcessAccount(ProcessFacts facts, const Tracker::Options& options,
                   const std::atomic<bool>& abandoned, const Symbolizer::Options& symbols);

    [[nodiscard]] bool has_been_watched() const;
    /// A copy.
    [[nodiscard]] ProcessFacts facts() const;
    [[nodiscard]] Tid pid() const { return facts_.pid; }
    [[nodiscard]] unsigned number() const { return facts_.number; }
    SharedTracker& tracker() { return tracker_; }
    /// For the main thread.
    StackNames& names() { return names_; }
    /// This process's time: it ends with the process.
    [[nodiscard]] MonotonicNs time(MonotonicNs now) const;

    /// Bytes that are mapped and that no call that we saw has mapped, when somebody looked last.
    [[nodiscard]] std::optional<std::uint64_t> unexplained() const { return unexplained_; }
    void set_unexplained(std::uint64_t bytes) { unexplained_ = bytes; }

    /// What StopSampler has seen so far.
    [[nodiscard]] const StopSamples& stops() const { return stops_; }
    void add_stops(const StopSamples& seen) { stops_ += seen; }

    /// What MemorySampler has seen; nothing before it has looked.
    [[nodiscard]] const std::optional<MemoryLooks>& memory() const { return memory_; }
    /// The last one, of a process that has ended, is about its group and the machine alone.
    void add_memory(MemoryLook look, bool is_last);
    [[nodiscard]] bool has_last_memory() const { return has_last_memory_; }

    /// The last look at its heap, for the main thread; null: there was none.
    [[nodiscard]] HeapView* heap() const { return heap_.get(); }
    /// What was looked at is no more if the process has executed another program since.
    void forget_old_heap();
    void set_heap(std::unique_ptr<HeapView> heap) { heap_ = std::move(heap); }
    /// Why the last look has come to nothing; "" if it has not.
    [[nodiscard]] const std::string& heap_problem() const { return heap_problem_; }
    void set_heap_problem(std::string why) { heap_problem_ = std::move(why); }

    ToldOfLooks& told_of_looks() { return told_of_looks_; }

    /// For the main thread, while it reads nothing of the account piece by piece. True if the
    /// process has ended, or was given up, and nothing new will come of it: all that was due to
    /// expire by its end has, and has been told of. What it knows takes little memory from then on.
    [[nodiscard]] bool settle();

    AccountAccess account() override { return {tracker_, tracker_, tracker_}; }
    void on_given_up() override;
    [[nodiscard]] bool is_given_up() const { return given_up_.load(); }
    void on_program(ProgramFacts program) override;
    void on_engine(std::string engine) override;
    void on_watching(std::size_t threads) override;
    void on_modules(const ModuleMap& modules) override;
    void on_stopped(bool stopped) override;
    void on_ended(std::optional<int> status) override;

  private:
    mutable std::mutex mutex_; ///< guards facts_, but for what never changes
    ProcessFacts facts_;
    std::atomic<bool> given_up_{false}; ///< it could not be watched
    SharedTracker tracker_;
    ModuleMailbox mailbox_;
    GeneratedCode generated_; ///< the tracer thread's
    StackNames names_;
    std::optional<std::uint64_t> unexplained_; ///< the main thread's, as what follows
    StopSamples stops_;
    std::optional<MemoryLooks> memory_;
    bool has_last_memory_ = false;
    std::unique_ptr<HeapView> heap_;
    std::string heap_problem_;
    ToldOfLooks told_of_looks_; ///< also the tracer thread's, at work for us in a look
};

/// All of a session's processes, also those that have ended.
class ProcessAccounts {
  public:
    /// `debug_file` is that of -d, or "".
    ProcessAccounts(const Tracker::Options& options, std::string debug_file,
                    DebugSources sources = {});

    ProcessAccount& add(Tid pid, Tid parent);
    /// Those that have been watched, and the first one, if there is any, in order of their numbers.
    /// Not those that were given up.
    [[nodiscard]] std::vector<ProcessAccount*> all() const;
    /// Of all(): those that something new may come of. What is done all the time is done for these,
    /// as there may be thousands that have ended.
    [[nodiscard]] std::vector<ProcessAccount*> active() const;
    /// Takes out of active() those that `is_settled` says yes to; it is also asked of those that
    /// have never been watched.
    void retire_if(const std::function<bool(ProcessAccount&)>& is_settled);
    /// Of all(). Null before there is one.
    [[nodiscard]] ProcessAccount* first() const;
    /// Null if there is none of that number.
    [[nodiscard]] ProcessAccount* find(std::uint64_t number) const;
    /// Of all, also of those to come. All are active() again, as their blocks may expire now.
    void set_expire_ns(std::int64_t expire_ns);

    /// This program is crashing: see SharedTracker. Async-signal-safe.
    void abandon() noexcept { abandoned_.store(true); }

  private:
    std::atomic<bool> abandoned_{false};
    std::size_t settled_since_trim_ = 0; ///< the main thread's, as is the next
    MonotonicNs last_trim_{};
    mutable std::mutex mutex_; ///< guards what follows
    Tracker::Options options_;
    std::string debug_file_;
    std::shared_ptr<DebugImages> images_;
    std::vector<std::unique_ptr<ProcessAccount>> accounts_; ///< only grows
    std::vector<ProcessAccount*> active_; ///< also those that have not been watched yet
};

} // namespace memleax
