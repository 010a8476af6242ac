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
    BacktraceTexts(unsigned indent, NameStyle style) : margin_(indent, ' '), style_(style) {}
    /// The report that `frames` belong to must outlive this.
    void append_to(std::string& text, const Backtrace& frames, StackEnd end);

  private:
    std::string margin_;
    NameStyle style_;
    FrameCache<std::string> lines_;
};

} // namespace memleax
