// SPDX-License-Identifier: GPL-3.0-or-later
/// Page faults in JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "memleax/report/report.hpp"

namespace memleax {

/// {minor, major, lost, memleax, kernel}
nlohmann::ordered_json fault_totals_json(const FaultTotals& totals);
nlohmann::ordered_json resident_json(const ResidentReport& resident);
/// With an empty array of call stacks.
nlohmann::ordered_json page_faults_json(const PageFaultReport& faults);
/// With an empty array of frames; `process` is null where none are told apart.
nlohmann::ordered_json fault_stack_json(const FaultStackReport& stack,
                                        const Report::Process* process);

} // namespace memleax
