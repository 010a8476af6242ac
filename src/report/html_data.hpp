// SPDX-License-Identifier: GPL-3.0-or-later
/// The data of the html report's page: JSON for model.js, which says what the places of an array
/// mean.
#pragma once

#include "memleax/report/report_writer.hpp"

namespace memleax {

/// Safe within a script element: there is no '<' in it.
void write_html_data(const Report& report, ReportSink& sink);

} // namespace memleax
