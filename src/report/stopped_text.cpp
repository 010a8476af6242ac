// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/stopped_text.hpp"

#include <fmt/format.h>

#include "memleax/report/readable.hpp"

namespace memleax {

// The looks tell how much the share is worth.
std::string stopped_text(const StopSamples& samples) {
    return fmt::format("for memleax: {} of the time in which its threads would have run ({} of {} "
                       "looks)",
                       share_text(samples.share().value_or(0)), samples.stopped, samples.all());
}

std::string unmeasured_text(const SeenCalls& calls) {
    return calls.all > calls.stopped ? fmt::format("; what {} without a stop took is not measured",
                                                   number_of(calls.all - calls.stopped, "call"))
                                     : "";
}

} // namespace memleax
