// SPDX-License-Identifier: GPL-3.0-or-later
#include "walker.hpp"

#include <array>

#include "fast_frame.hpp"
#include "full_frame.hpp"
#include "memleax/unwind/frame_pointer.hpp"

namespace memleax {

namespace {

/// No thread has more handlers than signals active, save one that is out to keep us busy.
constexpr unsigned kMaxSignalFrames = 64;

} // namespace

void Walker::walk(const arch::Registers& regs, From from, unsigned limit, UnwoundStack* out) {
    ++statistics_.walks;
    out->frames.clear();
    out->crossed_signal_frame = false;
    out->behind_own_frame = 0;
    out->interrupted_own_frame = false;
    out->guess_led_nowhere = false;
    out->end = StackEnd::limit;
    if (limit == 0) {
        return;
    }
    stack_.start(arch::sp(regs));
    auto end = run(FastFrame(regs, stack_), regs, from, limit, out);
    if (!end) {
        ++statistics_.slow_walks;
        out->frames.clear();
        out->crossed_signal_frame = false;
        out->behind_own_frame = 0;
        out->interrupted_own_frame = false;
        out->guess_led_nowhere = false;
        end = run(FullFrame(regs, stack_, source_), regs, from, limit, out);
    }
    stack_.finish();
    out->end = *end;
    statistics_.frames += out->frames.size();
}

Unwinder::Statistics Walker::statistics() const {
    Unwinder::Statistics result = statistics_;
    result.stack_reads = stack_.reads();
    return result;
}

Rule Walker::make_rule(FrameAddress frame) {
    ++statistics_.rule_misses;
    const Rule rule = source_.rule(frame);
    cache_.insert(frame, rule);
    return rule;
}

template <class Frame>
std::optional<StackEnd> Walker::run(Frame at, const arch::Registers& regs, From from,
                                    unsigned limit, UnwoundStack* out) {
    FrameAddress frame = FrameAddress::exact(arch::pc(regs));
    unsigned signal_frames = 0;
    Rule rule;
    Step next;
    if (from == From::function_entry) {
        next = step_from_entry(&at, regs);
    } else {
        rule = rule_for(frame);
        next = step(&at, frame, rule);
    }
    for (;;) {
        if (rule.kind == Rule::Kind::own) {
            out->behind_own_frame = out->frames.size();
            out->interrupted_own_frame = out->interrupted_own_frame || !frame.is_return_address();
        } else {
            out->frames.push_back(frame);
        }
        if (next.kind == Step::Kind::needs_rows) {
            return std::nullopt;
        }
        if (next.kind == Step::Kind::end) {
            return next.reason;
        }
        if (next.kind != Step::Kind::interrupted) {
            next.caller_pc &= ~signature_mask_;
        }
        if (next.caller_pc == 0) {
            return StackEnd::outermost;
        }
        const CodeAddr pc(next.caller_pc);
        if (next.kind == Step::Kind::interrupted) {
            out->crossed_signal_frame = true;
            if (++signal_frames > kMaxSignalFrames) {
                return StackEnd::not_increasing;
            }
            frame = FrameAddress::exact(pc);
        } else {
            frame = FrameAddress::return_address(pc);
        }
        // A FrameAddress keeps 63 bits; nothing with the 64th is an address of the target's.
        const bool is_code =
            frame.pc() == pc && (rule = rule_for(frame)).kind != Rule::Kind::not_code;
        // Where the function will return to is code, whether or not we have heard of it.
        const bool is_caller = from == From::function_entry && out->frames.size() == 1;
        if (!is_code && is_caller && frame.pc() == pc) {
            if (limit > 1) {
                out->frames.push_back(frame);
            }
            return limit > 1 ? StackEnd::unknown_code : StackEnd::limit;
        }
        // An interrupted pc was being executed, whatever it is: a call through a bad pointer, as a
        // rule, and then the handler's stack is worth more with it.
        if (!is_code && next.kind != Step::Kind::interrupted) {
            out->no_code = next.caller_pc;
            out->guess_led_nowhere = next.kind == Step::Kind::guessed;
            return out->guess_led_nowhere ? StackEnd::no_rule : StackEnd::not_code;
        }
        if (out->frames.size() >= limit) {
            return StackEnd::limit;
        }
        next = is_code ? step(&at, frame, rule) : Step::stop(StackEnd::not_code);
    }
}

template <class Frame> Step Walker::step(Frame* at, FrameAddress frame, const Rule& rule) {
    switch (rule.kind) {
    case Rule::Kind::regular:
    case Rule::Kind::own:
        return at->regular(frame, rule);
    case Rule::Kind::slow:
        return at->slow(frame);
    case Rule::Kind::frame_pointer:
        return step_by_frame_pointer(at);
    case Rule::Kind::signal_frame:
        return step_over_signal_frame(at);
    case Rule::Kind::outermost:
        return Step::stop(StackEnd::outermost);
    case Rule::Kind::none:
        return Step::stop(StackEnd::no_rule);
    case Rule::Kind::not_code:
        break;
    }
    return Step::stop(StackEnd::not_code);
}

template <class Frame> Step Walker::step_from_entry(Frame* at, const arch::Registers& regs) {
    std::uint64_t caller_pc = 0;
    if (const auto ra = arch::return_address_in_register(regs)) {
        caller_pc = ra->value();
    } else if (const auto word = stack_.stack_word(RemoteAddr(at->sp()))) {
        caller_pc = *word;
    } else {
        return Step::stop(StackEnd::bad_memory);
    }
    at->set_sp(arch::sp_after_return(regs).value());
    return Step::to(Step::Kind::called, caller_pc);
}

template <class Frame> Step Walker::step_by_frame_pointer(Frame* at) {
    const std::uint64_t fp = at->fp();
    if (fp == 0) { // as the ABI wants it in the outermost frame (AMD64 supplement, section 3.4.1)
        return Step::stop(StackEnd::outermost);
    }
    if (!is_plausible_frame_pointer(fp, at->sp())) {
        return Step::stop(StackEnd::no_rule);
    }
    const auto saved_fp = stack_.stack_word(RemoteAddr(fp));
    const auto ra = stack_.stack_word(RemoteAddr(fp) + 8);
    if (!saved_fp || !ra) {
        return Step::stop(StackEnd::no_rule);
    }
    at->set(fp + arch::kFramePointerCfaOffset, *saved_fp);
    return Step::to(Step::Kind::guessed, *ra);
}

template <class Frame> Step Walker::step_over_signal_frame(Frame* at) {
    std::array<std::byte, arch::kSignalFrameBytes> bytes;
    if (!stack_.stack_bytes(RemoteAddr(at->sp()), bytes)) {
        return Step::stop(StackEnd::bad_memory);
    }
    const auto context = arch::registers_from_signal_frame(bytes);
    if (!context) {
        return Step::stop(StackEnd::bad_memory);
    }
    *at = *context;
    return Step::to(Step::Kind::interrupted, arch::pc(*context).value());
}

} // namespace memleax
