// SPDX-License-Identifier: GPL-3.0-or-later
/// Compares what is mapped with what we have seen being mapped.
#pragma once

#include "memleax/events/mapping_event.hpp"
#include "memleax/session/process_account.hpp"

namespace memleax {

/// Notes in each process's account the bytes that no call which we saw has mapped; while all of
/// them are being watched.
void look_at_mappings(const ProcessAccounts& processes, const TrackedMemory& tracked);

} // namespace memleax
