// SPDX-License-Identifier: GPL-3.0-or-later
#include "call_reporter.hpp"

#include <algorithm>

#include "memleax/base/clock.hpp"

namespace memleax {

/// Of a thread that is stopped at a call's entry, with these registers.
class CallReporter::StoppedCall final : public CallSite {
  public:
    StoppedCall(CallReporter& reporter, Tid tid, const arch::Registers& regs)
        : reporter_(reporter), tid_(tid), regs_(regs) {}

    const UnwoundStack& walk(unsigned limit) override { return reporter_.walk(regs_, limit); }
    const UnwoundStack& to_record(const UnwoundStack& walked) override {
        return reporter_.recorder_.to_record(tid_, regs_, StackRecorder::At::entry, walked);
    }
    std::optional<Unseen> watch_return(CodeAddr return_address) override {
        return reporter_.returns_.watch(tid_, return_address);
    }
    [[nodiscard]] bool watches_all_returns() const override {
        return reporter_.returns_.watches_all();
    }
    [[nodiscard]] bool is_within_recorded() override {
        return reporter_.is_within_recorded_ && reporter_.is_within_recorded_(tid_, regs_);
    }

  private:
    CallReporter& reporter_;
    Tid tid_;
    const arch::Registers& regs_;
};

void CallReporter::on_hit(Tid tid, const arch::Registers& regs, const Breakpoint& breakpoint,
                          CallFollower::Follow follow) {
    const MonotonicNs now = monotonic_now();
    // An address may be both: the return comes first in time.
    if (breakpoint.is_return) {
        follower_.on_return({.tid = tid,
                             .address = breakpoint.address(),
                             .sp = arch::sp(regs),
                             .result = arch::return_value(regs),
                             .time = now});
    }
    if (breakpoint.entry >= 0) {
        CallEntry call{.tid = tid,
                       .function = breakpoint.entry,
                       .sp_after_return = arch::sp_after_return(regs),
                       .time = now};
        for (unsigned n = 0; n < call.arguments.size(); ++n) {
            call.arguments[n] = arch::argument(regs, n);
        }
        StoppedCall site(*this, tid, regs);
        follower_.on_entry(call, site, follow);
    }
}

const UnwoundStack& CallReporter::walk(const arch::Registers& regs, unsigned limit) {
    unwinder_.unwind_at_entry(regs, limit, &stack_);
    is_end_certain_ = true;
    if (stack_.end != StackEnd::unknown_code && stack_.end != StackEnd::not_code &&
        !stack_.guess_led_nowhere) {
        return stack_;
    }
    // Such an end may also be a broken stack, at each of its calls.
    constexpr std::int64_t kPauseNs = 1'000'000;
    constexpr std::int64_t kPauses = 20; // of the time that a look takes
    const MonotonicNs begin = monotonic_now();
    if (begin < next_look_for_code_) {
        is_end_certain_ = false;
        return stack_;
    }
    const bool is_news = modules_.look_for_generated_code();
    const MonotonicNs now = monotonic_now();
    next_look_for_code_ =
        MonotonicNs(now.value() + std::max(kPauseNs, kPauses * (now.value() - begin.value())));
    if (is_news) {
        has_news_of_code_ = true;
        modules_changed();
        unwinder_.unwind_at_entry(regs, limit, &stack_);
    }
    return stack_;
}

void CallReporter::reset() {
    returns_.reset();
    modules_changed();
}

} // namespace memleax
