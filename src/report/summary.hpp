// SPDX-License-Identifier: GPL-3.0-or-later
/// What a report comes to, in one sentence or two.
#pragma once

#include <string>

#include "memleax/report/report.hpp"

namespace memleax {

struct Summary {
    /// In ascending order of alarm; not_judged is for reports whose stacks have no verdicts.
    enum class Mood { good, too_early, not_judged, growing, leaking };
    Mood mood = Mood::good;
    std::string headline;     ///< "3 call stacks leak: 1.4 MiB in 312 blocks"
    std::string detail = {};  ///< "The worst grows by 2.1 KiB/s", without a full stop; may be ""
    std::string place = {};   ///< the function that the detail is about; may be ""
    std::string besides = {}; ///< what else is to be told, less grave; may be ""
};

Summary summarize(const Report& report);

} // namespace memleax
