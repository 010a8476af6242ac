// SPDX-License-Identifier: GPL-3.0-or-later
/// Backtraces of one report as backtrace_text() has them, with the text of each machine frame made
/// once.
#pragma once

#include <string>

#include "frame_cache.hpp"
#include "memleax/report/report.hpp"

namespace memleax {

class BacktraceTexts {
  public:
    explicit BacktraceTexts(unsigned indent) : margin_(indent, ' ') {}
    /// The report that `frames` belong to must outlive this.
    void append_to(std::string& text, const Backtrace& frames, StackEnd end);

  private:
    std::string margin_;
    FrameCache<std::string> lines_;
};

} // namespace memleax
