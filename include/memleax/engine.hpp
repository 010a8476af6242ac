// SPDX-License-Identifier: GPL-3.0-or-later
/// A source of AllocationEvents. The int3 engine is one; a trap-free one can stand beside it.
#pragma once

#include <atomic>
#include <cstdint>

#include "memleax/error.hpp"
#include "memleax/modules.hpp"

namespace memleax {

/// Why an engine stopped watching.
enum class EngineEnd {
    requested,   ///< somebody set the stop flag
    target_gone, ///< the process ended
};

/// What an engine tells its owner, besides events. Called from the tracer thread.
class EngineObserver {
  public:
    virtual ~EngineObserver() = default;
    /// Every breakpoint is in place (once).
    virtual void on_watching(std::size_t threads) = 0;
    /// The module list has changed, or is there for the first time.
    virtual void on_modules(const ModuleMap& modules) = 0;
};

/// Lives in one thread, the tracer.
class Engine {
  public:
    virtual ~Engine() = default;
    [[nodiscard]] virtual const char* name() const = 0;
    /// Puts everything in place. After a failure the target is as it was.
    virtual Result<void> arm() = 0;
    /// Sends events until `stop` is set or the target is gone. A signal to the calling thread, with
    /// a handler that does nothing, makes it look at `stop`.
    virtual EngineEnd run(const std::atomic<bool>& stop) = 0;
    /// Takes everything out again and lets go of every thread that does not sleep in the kernel;
    /// the end of the calling thread lets go of those that do. Idempotent.
    virtual void leave() = 0;
};

} // namespace memleax
