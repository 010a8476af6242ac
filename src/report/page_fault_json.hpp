// SPDX-License-Identifier: GPL-3.0-or-later
/// Page faults in JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "memleax/report/report.hpp"

namespace memleax {

/// {minor, major, lost, memleax, kernel}
nlohmann::ordered_json fault_totals_json(const FaultTotals& totals);
nlohmann::ordered_json resident_json(const ResidentReport& resident);
/// `report` has some.
nlohmann::ordered_json page_faults_json(const Report& report);

} // namespace memleax
