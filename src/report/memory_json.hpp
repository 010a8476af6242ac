// SPDX-License-Identifier: GPL-3.0-or-later
/// Whose memory is short, as the JSON report has it.
#pragma once

#include <nlohmann/json.hpp>

#include "memleax/proc/memory_look.hpp"

namespace memleax {

/// Keys of what could not be read are left out.
nlohmann::ordered_json memory_looks_json(const MemoryLooks& looks);

} // namespace memleax
