// SPDX-License-Identifier: GPL-3.0-or-later
/// What others want of a process that is being watched: with it in this state, do that, and let it
/// go on.
#pragma once

#include <functional>
#include <vector>

#include "memleax/base/clock.hpp"
#include "memleax/base/types.hpp"
#include "memleax/engine/watch.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

enum class TargetState {
    as_it_is,    ///< its threads run
    one_stopped, ///< a thread is stopped and may execute system calls for us
    all_stopped  ///< all of them, and newborns
};

/// What the work of a request finds. Everything of ours stays in place: breakpoints, pages, the
/// engine. Threads that stand still have their stops put aside (Target::take_deferred()).
struct TargetInHand {
    Target& target;
    const ModuleMap& modules;
    std::vector<AddrRange> own_memory; ///< what is mapped in it and is ours
    Tid borrowed;                      ///< with one_stopped
    MonotonicNs since;                 ///< then the first thread was asked to stop
    Watch& watch;
};

/// Called in the tracer thread, and nothing is heard of the process meanwhile.
using TargetWork = std::function<void(TargetInHand&)>;

} // namespace memleax
