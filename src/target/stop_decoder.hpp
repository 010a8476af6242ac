// SPDX-License-Identifier: GPL-3.0-or-later
/// What waitpid says about a thread of one process (ptrace(2)), and what follows from it for the
/// table of its threads.
#pragma once

#include <optional>

#include "births.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/stop_event.hpp"
#include "memleax/target/thread_signals.hpp"
#include "memleax/target/thread_table.hpp"
#include "memleax/target/tracer.hpp"

#include "core_dump.hpp"
#include "interrupted_calls.hpp"

namespace memleax {

class Target;

class StopDecoder {
  public:
    /// All of them the process's own, but for the tracer. They outlive this.
    struct Parts {
        ThreadTable& threads;
        Births& births;
        ThreadSignals& signals;
        InterruptedCalls& calls;
        CoreDump& core_dump;
    };
    StopDecoder(Target& target, Tracer& tracer, const Parts& parts)
        : target_(target), tracer_(tracer), parts_(parts) {}

    /// A status of one of its own. Nothing if nobody is to be told.
    std::optional<StopEvent> decode(Tid tid, int status);
    /// The first stop of a child process of this one.
    [[nodiscard]] StopEvent child_stop(Tid child) const;

  private:
    StopEvent decode_stop(Tid tid, TracedThread& thread, int status);
    void on_exec(Tid tid);

    Target& target_;
    Tracer& tracer_;
    Parts parts_;
};

} // namespace memleax
