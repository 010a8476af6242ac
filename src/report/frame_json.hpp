// SPDX-License-Identifier: GPL-3.0-or-later
/// Frames in JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "memleax/events/source_frame.hpp"

namespace memleax {

nlohmann::ordered_json frame_json(const SourceFrame& frame);
/// Innermost first.
nlohmann::ordered_json frames_json(const Backtrace& frames);

} // namespace memleax
