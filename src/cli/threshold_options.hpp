// SPDX-License-Identifier: GPL-3.0-or-later
/// The values of --at-memory and --at-pressure. All throw UsageError.
#pragma once

#include <string>

#include "memleax/cli/options.hpp"

namespace memleax {

/// "90%", "1.5G": units are K, M, G and T, of 1024, also as KiB and KB, as systemd's MemoryMax= has
/// them.
MemoryThreshold parse_memory_threshold(const std::string& option, const std::string& text);

/// "some", "full", "some:150ms", "some:150ms/2s".
PressureThreshold parse_pressure_threshold(const std::string& option, const std::string& text);

/// A name is for something.
void check_thresholds(const Options& options);

} // namespace memleax
