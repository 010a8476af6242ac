// SPDX-License-Identifier: GPL-3.0-or-later
/// From interned call stacks to backtraces that people read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "memleax/events/source_frame.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/session/module_mailbox.hpp"
#include "memleax/session/shared_tracker.hpp"
#include "memleax/symbols/symbolizer.hpp"

namespace memleax {

/// Looks names up when they are asked for, in the caller's thread, and caches them. The tracker is
/// locked only while a stack's addresses are copied.
class StackNames {
  public:
    StackNames(ModuleMailbox& mailbox, SharedTracker& tracker, const Symbolizer::Options& options)
        : mailbox_(mailbox), tracker_(tracker), symbolizer_(options) {}

    /// The innermost `most` frames.
    [[nodiscard]] Backtrace resolve(StackId id, std::size_t most = SIZE_MAX);
    [[nodiscard]] StackEnd end(StackId id);
    [[nodiscard]] std::optional<Symbolizer::Variable> find_variable(RemoteAddr address);
    [[nodiscard]] ModuleDescription describe(const Module& module);
    /// Every module that the target has, or has had.
    [[nodiscard]] const std::vector<std::shared_ptr<const Module>>& modules();
    /// The program's own; null if it is not known.
    [[nodiscard]] const Module* main() const { return main_.get(); }

  private:
    void refresh();

    ModuleMailbox& mailbox_;
    SharedTracker& tracker_;
    Symbolizer symbolizer_;
    std::vector<std::shared_ptr<const Module>> modules_;
    std::shared_ptr<const Module> main_;
};

} // namespace memleax
