// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include "memleax/report/leak_findings.hpp"

namespace memleax {

/// JSON's leak_check.
nlohmann::ordered_json leak_findings_json(const LeakFindings& findings);

} // namespace memleax
