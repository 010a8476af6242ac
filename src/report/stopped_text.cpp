// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/stopped_text.hpp"

#include <fmt/format.h>

#include "memleax/report/readable.hpp"

namespace memleax {

// The looks tell how much the share is worth.
std::string stopped_text(const StopSamples& samples) {
    constexpr std::uint64_t kFewest = 10;
    if (samples.all() < kFewest) {
        return fmt::format("for memleax at {} of {} at which its threads would have run: too few "
                           "to tell a share of the time",
                           samples.stopped, number_of(samples.all(), "look"));
    }
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
