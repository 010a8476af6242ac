// SPDX-License-Identifier: GPL-3.0-or-later
/// From the target's modules to those of the report.
#pragma once

#include <memory>
#include <vector>

#include "memleax/proc/modules.hpp"
#include "memleax/report/report.hpp"

namespace memleax {

/// Every module that has code, in the order given, but `main` (which may be null) first. For
/// any thread.
std::vector<Report::Module>
report_modules(const std::vector<std::shared_ptr<const Module>>& modules, const Module* main);

} // namespace memleax
