// SPDX-License-Identifier: GPL-3.0-or-later
#include "../src/engine/int3/told_calls.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

constexpr Tid kThread(7);
constexpr CodeAddr kMalloc(0x1000);
constexpr CodeAddr kFree(0x2000);

arch::Registers before_call(CodeAddr place, std::uint64_t sp, std::uint64_t argument = 0) {
    arch::Registers regs{};
    arch::set_pc(regs, place);
    arch::set_sp(regs, RemoteAddr(sp));
    arch::set_argument(regs, 0, argument);
    return regs;
}

TEST(ToldCalls, AHandlersCallAndTheInterruptedOneComeAgain) {
    ToldCalls calls;
    const arch::Registers outer = before_call(kMalloc, 0x8000);
    const arch::Registers inner = before_call(kMalloc, 0x7000);
    calls.add(kThread, outer);
    calls.add(kThread, inner);
    EXPECT_FALSE(calls.take(kThread, kFree, before_call(kFree, 0x7000)));
    EXPECT_TRUE(calls.has(kThread, kMalloc, outer));
    EXPECT_TRUE(calls.take(kThread, kMalloc, inner));
    EXPECT_FALSE(calls.take(kThread, kMalloc, inner)); // a new one
    EXPECT_TRUE(calls.take(kThread, kMalloc, outer));
    EXPECT_FALSE(calls.has_any(kThread));
}

TEST(ToldCalls, TheOuterOnesReturnEndsTheHandlers) {
    ToldCalls calls;
    calls.add(kThread, before_call(kMalloc, 0x8000));
    calls.add(kThread, before_call(kMalloc, 0x7000)); // left by siglongjmp
    EXPECT_TRUE(calls.take(kThread, kMalloc, before_call(kMalloc, 0x8000)));
    EXPECT_FALSE(calls.has_any(kThread));
}

TEST(ToldCalls, AnotherBlockIsAnotherCall) {
    ToldCalls calls;
    calls.add(kThread, before_call(kFree, 0x8000, 0x5000)); // left by siglongjmp
    EXPECT_FALSE(calls.take(kThread, kFree, before_call(kFree, 0x8000, 0x6000)));
}

TEST(ToldCalls, WhatIsNotOnTheStackAnyMoreIsForgotten) {
    ToldCalls calls;
    calls.add(kThread, before_call(kMalloc, 0x8000));
    calls.add(kThread, before_call(kFree, 0x7000));
    UnwoundStack walked;
    walked.frames = {FrameAddress::exact(kFree), FrameAddress::exact(kMalloc)};
    const arch::Registers regs = before_call(kFree, 0x6000, 1);
    calls.forget_left(kThread, regs, walked);
    EXPECT_TRUE(calls.has(kThread, kMalloc, before_call(kMalloc, 0x8000)));
    EXPECT_FALSE(calls.has(kThread, kFree, before_call(kFree, 0x7000)));

    walked.frames.pop_back();
    walked.end = StackEnd::no_rule; // it may be further out
    calls.forget_left(kThread, regs, walked);
    EXPECT_TRUE(calls.has_any(kThread));
    walked.end = StackEnd::outermost;
    calls.forget_left(kThread, regs, walked);
    EXPECT_FALSE(calls.has_any(kThread));
}

TEST(ToldCalls, OfABreakpointThatIsLiftedNoneComesAgain) {
    ToldCalls calls;
    calls.add(kThread, before_call(kMalloc, 0x8000));
    calls.add(kThread, before_call(kFree, 0x7000));
    calls.forget_at(kMalloc);
    EXPECT_FALSE(calls.has(kThread, kMalloc, before_call(kMalloc, 0x8000)));
    calls.forget_at(kFree);
    EXPECT_FALSE(calls.has_any(kThread));
}

TEST(ToldCalls, AreNotKeptWithoutEnd) {
    ToldCalls calls;
    constexpr std::uint64_t kCalls = 1000; // each left by siglongjmp
    for (std::uint64_t i = 0; i < kCalls; ++i) {
        calls.add(kThread, before_call(kMalloc, 0x8000 + 16 * i));
    }
    EXPECT_FALSE(calls.has(kThread, kMalloc, before_call(kMalloc, 0x8000)));
    EXPECT_TRUE(calls.has(kThread, kMalloc, before_call(kMalloc, 0x8000 + 16 * (kCalls - 1))));
}

} // namespace
} // namespace memleax
