// SPDX-License-Identifier: GPL-3.0-or-later
/// From hits of breakpoints to calls.
#pragma once

#include <functional>
#include <utility>

#include "memleax/calls/call_follower.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/unwind/unwinder.hpp"
#include "return_watch.hpp"
#include "stack_recorder.hpp"

namespace memleax {

/// Reads a call off a stopped thread's registers and stack. It neither resumes threads nor takes
/// breakpoints out.
class CallReporter {
  public:
    /// All references must outlive it.
    CallReporter(Target& target, ModuleMap& modules, BreakpointTable& breakpoints,
                 CallFollower& follower, UnwinderChoice unwinder)
        : modules_(modules), follower_(follower), unwinder_(modules, target.memory()),
          recorder_(modules, target.memory(), follower, unwinder), returns_(modules, breakpoints) {}

    /// The thread has executed this breakpoint.
    void on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                CallFollower::Follow follow);
    /// Whom to ask of CallSite::is_within_recorded(): the stopped thread is at a call's entry.
    void ask_what_is_recorded(std::function<bool(Tid, const arch::Registers&)> is_within_recorded) {
        is_within_recorded_ = std::move(is_within_recorded);
    }
    void set_signature_mask(std::uint64_t mask) {
        unwinder_.set_signature_mask(mask);
        recorder_.set_signature_mask(mask);
    }
    void modules_changed() {
        unwinder_.modules_changed();
        recorder_.modules_changed();
    }
    /// The address space is gone.
    void reset();
    /// Where `regs` are at a call's entry. If the stack ends at code that nobody has told us of, as
    /// a compiler's at run time, that is looked for, now and then.
    const UnwoundStack& walk(const arch::Registers& regs, unsigned limit);
    /// The last walk did not end at code that may only be too new to be known.
    [[nodiscard]] bool is_end_certain() const { return is_end_certain_; }
    [[nodiscard]] bool is_code(CodeAddr pc) const { return modules_.is_executable(pc); }
    /// Has a walk found such code since this was asked?
    [[nodiscard]] bool take_news_of_code() { return std::exchange(has_news_of_code_, false); }
    Unwinder& unwinder() { return unwinder_; }
    StackRecorder& recorder() { return recorder_; }

  private:
    class StoppedCall;

    ModuleMap& modules_;
    CallFollower& follower_;
    Unwinder unwinder_;
    StackRecorder recorder_;
    ReturnWatch returns_;
    std::function<bool(Tid, const arch::Registers&)> is_within_recorded_;
    UnwoundStack stack_; ///< reused, so that no walk allocates
    MonotonicNs next_look_for_code_;
    bool is_end_certain_ = true;
    bool has_news_of_code_ = false;
};

} // namespace memleax
