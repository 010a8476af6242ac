// SPDX-License-Identifier: GPL-3.0-or-later
/// What a Target is made of. Only src/target/ knows it: everybody else has what Target itself says.
#pragma once

#include <memory>

#include "births.hpp"
#include "core_dump.hpp"
#include "interrupted_calls.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/process_copy.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "memleax/target/thread_signals.hpp"
#include "memleax/target/thread_table.hpp"
#include "memleax/target/tracer.hpp"
#include "remote_calls.hpp"
#include "stepper.hpp"
#include "stop_decoder.hpp"
#include "stop_wait.hpp"

namespace memleax {

/// One for each subject; they are made in this order, each from those above it.
struct Target::Parts {
    Parts(Target& of, Tracer& tracer);

    TracedThread& add_thread(Tid tid);
    void remove_thread(Tid tid);
    /// The thread group that it belongs to: the process's, or that of a vfork-like child.
    [[nodiscard]] Tid group_of(Tid tid) const;

    Target& target;
    Tracer& tracer;
    ThreadTable threads;
    Births births;
    CoreDump core_dump;
    InterruptedCalls interrupted;
    ThreadSignals signals;
    StopDecoder decoder;
    StopWait waits;
    Stepper stepper;
    RemoteCalls calls;
    ThreadBorrower borrower;
    std::shared_ptr<ProcessCopy> copy; ///< if there is one; see keep_copy()
};

} // namespace memleax
