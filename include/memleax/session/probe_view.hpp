// SPDX-License-Identifier: GPL-3.0-or-later
/// The probes that a process's account has, for reports and for the prompt.
#pragma once

#include <vector>

#include "memleax/report/probe_report.hpp"
#include "memleax/session/process_account.hpp"
#include "memleax/session/stack_filter.hpp"

namespace memleax {

/// Adds those of one more process, the one with this index; call stacks that the filter shows.
void add_probes(ProcessAccount& process, std::uint32_t index, const StackFilter& filter,
                std::vector<ProbeReport>* report);

} // namespace memleax
