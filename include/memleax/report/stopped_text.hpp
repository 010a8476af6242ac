// SPDX-License-Identifier: GPL-3.0-or-later
/// What the watching cost the target, as the text report and the prompt say it.
#pragma once

#include <string>

#include "memleax/events/seen_calls.hpp"
#include "memleax/proc/stopped_share.hpp"

namespace memleax {

/// "for memleax: 0.9% of the time in which its threads would have run (7 of 812 looks)".
/// Of fewer than ten looks, which `samples` has at least one of: "for memleax at 1 of 3 looks at
/// which ...", without a share.
std::string stopped_text(const StopSamples& samples);
/// What that leaves out: calls that the inline engine's code in the target has recorded, in the
/// target's own CPU time. "" or "; what 12 calls without a stop took is not measured".
std::string unmeasured_text(const SeenCalls& calls);

} // namespace memleax
