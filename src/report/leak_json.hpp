// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <nlohmann/json.hpp>

#include "memleax/report/leak_findings.hpp"

namespace memleax {

/// JSON's leak_check; if it is complete, with an empty array of records.
nlohmann::ordered_json leak_findings_json(const LeakFindings& findings);
/// With an empty array of frames, if its call stack is known.
nlohmann::ordered_json leak_record_json(const LeakRecord& record);

} // namespace memleax
