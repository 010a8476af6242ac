// SPDX-License-Identifier: GPL-3.0-or-later
// InlineEngine: calls within others, the allocator's own and a handler's, as a stack walk tells
// them.
#include "inline_engine.hpp"

#include <algorithm>

#include "memleax/base/clock.hpp"

namespace memleax {

namespace {
/// Of a walk that looks for a frame of the agent's.
constexpr unsigned kMostFrames = 256;
} // namespace

InlineEngine::Within InlineEngine::look_within(Tid tid, const arch::Registers& regs) {
    const auto index = left_ ? std::nullopt : threads_.find(tid);
    if (!index || threads_.seen(*index).inside == 0) {
        return Within::nothing;
    }
    if (threads_.seen(*index).interrupted == 0 &&
        arch::sp(regs).value() < threads_.seen(*index).inside) {
        return Within::call;
    }
    tell();
    const UnwoundStack& walked = reporter_.walk(regs, kMostFrames);
    if (walked.behind_own_frame == 0) {
        // Out of the midst of the agent, which has no tables, no walk leads to its frame. And one
        // that has no certain end has not come so far.
        const bool is_in_agent =
            std::any_of(walked.frames.begin(), walked.frames.end(), [this](FrameAddress frame) {
                return memory_.pages().contains(frame.pc());
            });
        // This call's own frame, which has been there, may lie upon the other one's.
        const std::uint64_t inside = threads_.seen(*index).inside;
        const bool is_overwritten =
            arch::sp(regs).value() - inside < arch::kAgentBehindFrame + sizeof(agent::Frame);
        if (is_in_agent || (walked.end != StackEnd::outermost && !is_overwritten &&
                            memory_.pages().has_frame(*index, inside))) {
            return Within::handler;
        }
        // It was left by siglongjmp.
        if (const auto left = threads_.leave_call(*index, monotonic_now())) {
            follower_.on_recorded({&*left, 1});
        }
        return Within::nothing;
    }
    const auto ours = walked.frames.begin() + static_cast<std::ptrdiff_t>(walked.behind_own_frame);
    const bool by_handler = walked.interrupted_own_frame ||
                            std::any_of(walked.frames.begin() + 1, ours, [](FrameAddress frame) {
                                return !frame.is_return_address();
                            });
    return by_handler ? Within::handler : Within::call;
}

std::optional<InlineEngine::Decision> InlineEngine::decide_within(Tid tid, std::uint32_t index,
                                                                  const arch::Registers& regs,
                                                                  const Breakpoint& breakpoint) {
    switch (look_within(tid, regs)) {
    case Within::nothing:
        return std::nullopt;
    case Within::handler:
        return Decision{Way::stop, StopReason::signal_handler};
    case Within::call:
        break;
    }
    tell();
    memory_.set_interrupted(index, false); // its handler has returned
    const AllocatorFunction& function = *follower_.function(breakpoint.entry).function;
    if (function.pointer_argument >= 0) {
        RecordedCall ends;
        ends.kind = RecordedCall::Kind::inner_free;
        ends.tid = tid;
        ends.function = breakpoint.entry;
        ends.block = handle_address(
            function, arch::argument(regs, static_cast<unsigned>(function.pointer_argument)));
        ends.time = monotonic_now();
        forget_live(breakpoint, regs);
        follower_.on_recorded({&ends, 1});
    }
    return Decision{Way::past, StopReason::other};
}

// The call was told when it stopped. From then until it is made anew all calls stop, which are the
// handler's, lest the agent tell of it once more. It is not made anew if the handler has left it by
// siglongjmp.
bool InlineEngine::has_calls_to_come(Tid tid, const arch::Registers& regs) {
    if (told_calls_.has_any(tid)) {
        told_calls_.forget_left(tid, regs, reporter_.walk(regs, kMostFrames));
    }
    return told_calls_.has_any(tid);
}

} // namespace memleax
