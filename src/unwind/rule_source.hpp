// SPDX-License-Identifier: GPL-3.0-or-later
/// Where rules come from: a process's modules, or a test's table.
#pragma once

#include "memleax/base/types.hpp"
#include "memleax/elf/cfi.hpp"
#include "memleax/unwind/rule.hpp"

namespace memleax {

/// Asked once for each pc: what it answers is cached by the walker.
class RuleSource {
  public:
    virtual ~RuleSource() = default;
    /// The rule for this frame, `not_code` if its pc is in no executable memory.
    virtual Rule rule(FrameAddress frame) = 0;
    /// The whole row; null if no table covers the pc. Good until the next call.
    virtual const CfiRow* row(FrameAddress frame) = 0;
};

} // namespace memleax
