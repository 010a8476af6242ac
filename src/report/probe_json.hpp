// SPDX-License-Identifier: GPL-3.0-or-later
/// Probes in JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "memleax/report/report.hpp"

namespace memleax {

/// [{name, calls, callstacks [{calls, frames}], arguments [{value, calls}], other_arguments}]; the
/// report has some.
nlohmann::ordered_json probes_json(const Report& report);

} // namespace memleax
