// SPDX-License-Identifier: GPL-3.0-or-later
/// The page faults that a process's account has, for reports and for the prompt.
#pragma once

#include "memleax/report/page_fault_report.hpp"
#include "memleax/session/process_account.hpp"
#include "memleax/session/stack_filter.hpp"

namespace memleax {

/// Adds those of one more process, the one with this index; call stacks that the filter shows, to
/// be put in order by sort_fault_stacks().
void add_page_faults(ProcessAccount& process, std::uint32_t index, const StackFilter& filter,
                     PageFaultReport* report);

} // namespace memleax
