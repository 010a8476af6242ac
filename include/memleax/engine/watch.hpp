// SPDX-License-Identifier: GPL-3.0-or-later
/// Watches one process: puts into a seized target what shows its calls, deals with its stops, and
/// takes everything out again.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "memleax/allocators/allocator_search.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/calls/call_follower.hpp"
#include "memleax/engine/stack_comparison.hpp"
#include "memleax/events/event_sink.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/target/target.hpp"
#include "memleax/unwind/unwinder.hpp"
#include "memleax/unwind/unwinder_choice.hpp"

namespace memleax {

/// How calls are seen.
enum class EngineChoice {
    automatic, ///< `inlined`, unless another option asks for breakpoints
    int3,      ///< by breakpoints: each call stops its thread, twice
    inlined    ///< by code of ours in the target, where a function can be patched; other functions
               ///< have their breakpoints beside them
};

/// How a child process has come to have a memory of its own.
enum class ChildOrigin {
    forked,  ///< a copy of its parent's, with our breakpoints taken out
    executed ///< it shared its parent's (vfork, posix_spawn) until it executed a program
};

/// What the owner of a Watch is told, besides events. Called from the tracer thread.
class WatchObserver {
  public:
    virtual ~WatchObserver() = default;
    /// Every function is watched (once).
    virtual void on_watching(std::size_t threads) = 0;
    /// The module list has changed, or is there for the first time.
    virtual void on_modules(const ModuleMap& modules) = 0;
    /// LeakSanitizer is among the modules, from now on.
    virtual void on_leak_sanitizer() = 0;
    /// The module list is about to change, and what it says of the present code is soon gone.
    virtual void before_modules_change() = 0;
    /// A call of the process is about to give pages back, and stands still: what touched them until
    /// now can still be looked at. Only where `TrackedMemory::still_there()`.
    virtual void before_pages_go() = 0;
    /// Watch::engine_name() is another one from now on.
    virtual void on_engine_changed() = 0;
    /// Job control has stopped threads of it (SIGSTOP and its kin), or has let all go on.
    virtual void on_stopped(bool stopped) = 0;
    /// The process executes another program, whose modules are known. False: it is to be let go of.
    virtual bool on_exec() = 0;
    /// A child process stands in a stop. False: it is to be let go of; true: it is somebody else's
    /// from now on.
    virtual bool take_child(Tid child, ChildOrigin origin) = 0;
    /// The watching is over: the process has ended, with this status (as from waitpid) if it is
    /// known, or was let go of. Must not destroy anything.
    virtual void on_ended(std::optional<int> status) = 0;
};

/// Lives in one thread, the tracer.
class Watch {
  public:
    virtual ~Watch() = default;
    /// Of the engine: how calls are seen ("int3": by breakpoints).
    [[nodiscard]] virtual const char* engine_name() const = 0;
    /// Puts everything in place. After a failure the target is as it was. From then on the target's
    /// stops are dealt with here (Target::handler).
    virtual Result<void> arm() = 0;
    /// Nobody may be left to wait for: looks whether the process has ended.
    virtual void on_silence() = 0;
    /// To be called every few milliseconds, if the engine is not "int3" or needs_ticks(). Returns
    /// within how many ns it should be called again, or kAnyTime.
    virtual std::int64_t on_tick() = 0;
    static constexpr std::int64_t kAnyTime = std::numeric_limits<std::int64_t>::max();
    /// Does on_tick() have to send a thread what was too early for it, or to look for calls that
    /// are older than the watching?
    [[nodiscard]] virtual bool needs_ticks() const = 0;
    /// What is mapped in the target and is ours: code, and the engine's memory.
    [[nodiscard]] virtual std::vector<AddrRange> own_memory() = 0;
    /// Knows the process's code, and what the engine itself puts on stacks.
    [[nodiscard]] virtual Unwinder& unwinder() = 0;
    /// Walks a stack both ways at the next call that has it. Whoever wants that holds the
    /// comparison: once it is gone nobody looks for such a call any more. One at a time.
    virtual void compare(const std::shared_ptr<StackComparison>& comparison) = 0;
    /// Before leave(), so that this takes less long: stops are served meanwhile, and on_tick() is
    /// called, until it is_ready_to_leave(). `alone`: no other process is left before this one.
    virtual void begin_to_leave(bool alone) = 0;
    [[nodiscard]] virtual bool is_ready_to_leave() const = 0;
    /// Takes everything out again and lets go of every thread that does not sleep in the kernel;
    /// the end of the calling thread lets go of those that do. Idempotent.
    virtual void leave() = 0;
};

/// All references must outlive it. The target is seized, or launched and at its ExecStop; `modules`
/// has been refreshed for a seized one. `engine` is int3 for another
/// `unwinder` than our own, as the inline engine's agent knows no other.
std::unique_ptr<Watch> make_watch(Target& target, ModuleMap& modules, AccountAccess account,
                                  WatchObserver& observer, AllocatorSearch& search,
                                  const FollowOptions& options, EngineChoice engine,
                                  UnwinderChoice unwinder);

} // namespace memleax
