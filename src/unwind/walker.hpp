// SPDX-License-Identifier: GPL-3.0-or-later
/// The walk from frame to frame. Fast: (pc, sp, fp) only, by cached Rules. If a frame's rule is
/// `slow`, the walk is done again with all registers and whole rows: a callee may have saved the
/// register that the slow frame needs, so it must be followed from frame 0 on.
#pragma once

#include <cstdint>
#include <optional>

#include "arch.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/unwind/unwinder.hpp"
#include "rule_cache.hpp"
#include "rule_source.hpp"
#include "stack_window.hpp"
#include "step.hpp"

namespace memleax {

class Walker {
  public:
    /// Both must outlive the walker.
    Walker(RuleSource& source, MemoryReader& memory) : source_(source), stack_(memory) {}

    /// Where a walk begins.
    enum class From { any_instruction, function_entry };
    /// See Unwinder::unwind and unwind_at_entry.
    void walk(const arch::Registers& regs, From from, unsigned limit, UnwoundStack* out);
    /// See Unwinder::set_signature_mask.
    void set_signature_mask(std::uint64_t mask) { signature_mask_ = mask; }
    /// Forgets all rules.
    void forget() { cache_.clear(); }
    [[nodiscard]] Unwinder::Statistics statistics() const;
    Rule rule_for(FrameAddress frame) {
        const Rule* rule = cache_.find(frame);
        return rule != nullptr ? *rule : make_rule(frame);
    }

  private:
    Rule make_rule(FrameAddress frame);

    // One loop for both kinds of frame. Nothing: a FastFrame needs rows.
    template <class Frame>
    std::optional<StackEnd> run(Frame at, const arch::Registers& regs, From from, unsigned limit,
                                UnwoundStack* out);
    template <class Frame> Step step(Frame* at, FrameAddress frame, const Rule& rule);
    template <class Frame> Step step_from_entry(Frame* at, const arch::Registers& regs);
    template <class Frame> Step step_by_frame_pointer(Frame* at);
    template <class Frame> Step step_over_signal_frame(Frame* at);

    RuleSource& source_;
    RuleCache cache_;
    StackWindow stack_;
    std::uint64_t signature_mask_ = 0;
    Unwinder::Statistics statistics_;
};

} // namespace memleax
