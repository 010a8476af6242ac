// SPDX-License-Identifier: GPL-3.0-or-later
/// From interned call stacks to backtraces that people read.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "memleax/modules.hpp"
#include "memleax/shared_tracker.hpp"
#include "memleax/source_frame.hpp"
#include "memleax/symbolizer.hpp"
#include "memleax/watcher.hpp"

namespace memleax {

/// Looks names up when they are asked for, in the caller's thread, and caches them. The tracker is
/// locked only while a stack's addresses are copied.
class StackNames {
  public:
    /// `debug_file` is that of -d, or "".
    StackNames(Watcher& watcher, SharedTracker& tracker, std::string debug_file)
        : watcher_(watcher), tracker_(tracker),
          symbolizer_({.main_debug_file = std::move(debug_file)}) {}

    [[nodiscard]] Backtrace resolve(StackId id);
    [[nodiscard]] StackEnd end(StackId id);
    /// Where its symbols, lines and unwind tables come from, or why there are none.
    [[nodiscard]] std::string describe(const Module& module);
    /// Every module that the target has, or has had.
    [[nodiscard]] const std::vector<std::shared_ptr<const Module>>& modules();
    /// The program's own; null if it is not known.
    [[nodiscard]] const Module* main() const { return main_.get(); }

  private:
    void refresh();

    Watcher& watcher_;
    SharedTracker& tracker_;
    Symbolizer symbolizer_;
    std::vector<std::shared_ptr<const Module>> modules_;
    std::shared_ptr<const Module> main_;
};

} // namespace memleax
