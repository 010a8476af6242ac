// SPDX-License-Identifier: GPL-3.0-or-later
/// From a tracker's notices to the lines that are printed while a session runs.
#pragma once

#include <string>

#include "memleax/report/report.hpp"
#include "memleax/session/stack_filter.hpp"
#include "memleax/session/stack_names.hpp"
#include "memleax/track/tracker.hpp"

namespace memleax {

class LivePrinter {
  public:
    LivePrinter(StackNames& names, const StackFilter& filter, NameStyle style)
        : names_(names), filter_(filter), style_(style) {}

    /// "" if the user does not want to hear of this call stack.
    [[nodiscard]] std::string text(const Notice& notice);

  private:
    [[nodiscard]] bool is_hidden(const Notice& notice);
    /// With its call stacks the first time.
    [[nodiscard]] ErrorReport described(const MemoryError& error);

    StackNames& names_;
    const StackFilter& filter_;
    const NameStyle style_;
};

} // namespace memleax
