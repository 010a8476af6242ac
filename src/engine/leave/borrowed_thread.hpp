// SPDX-License-Identifier: GPL-3.0-or-later
/// The threads that a dead tracer had borrowed, or kept signals from: they get back what is theirs,
/// by the recovery record.
#pragma once

#include <csignal>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

struct OwedSignal {
    Tid tid;
    siginfo_t info;
};

/// Out of the record: from here on they are the caller's.
[[nodiscard]] std::vector<OwedSignal> owed_signals(RecoveryRecord& record);

/// A thread that was executing something for the dead one has come back by itself (WayBack), is on
/// its way, waits in a loop for its registers, or has them and not its signal mask. Its id, or 0 if
/// there is none, or none that need be stopped.
Tid return_borrowed_thread(Target& target);

/// To be called when the code is whole again, so that they may run to the stops of what was held
/// back from them. `borrowed` as return_borrowed_thread() has told.
void give_owed_signals(Target& target, Tid borrowed, const std::vector<OwedSignal>& owed);

/// A page that nobody has got round to writing down; empty if there is none. Once.
[[nodiscard]] AddrRange unknown_page(RecoveryRecord& record);

} // namespace memleax
