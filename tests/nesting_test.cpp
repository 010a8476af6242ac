// SPDX-License-Identifier: GPL-3.0-or-later
// Calls within calls, by what the stack shows where the numbers do not tell.
#include "../src/calls/nesting.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace memleax {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr CodeAddr kMalloc(0x1000);
constexpr CodeAddr kNew(0x2000);
constexpr CodeAddr kHandlersMalloc(0x3000);
constexpr CodeAddr kCaller(0x9000);
constexpr CodeAddr kOther(0x9900);

/// Shows what it is told to, and counts.
class Shown final : public CallSite {
  public:
    const UnwoundStack& walk(unsigned /*limit*/) override {
        ++walks;
        return stack;
    }
    std::optional<Unseen> watch_return(CodeAddr /*return_address*/) override {
        return std::nullopt;
    }
    [[nodiscard]] bool watches_all_returns() const override { return true; }
    UnwoundStack stack;
    int walks = 0;
};

class NestingTest : public ::testing::Test {
  protected:
    NestingTest() {
        malloc_.name = "malloc";
        new_.name = "operator new";
        new_.throws = true;
    }
    void push(const AllocatorFunction& function, CodeAddr entry, std::uint64_t sp,
              CodeAddr return_address = kCaller) {
        PendingCall call;
        call.function = &function;
        call.entry = entry;
        call.return_address = return_address;
        call.sp_after_return = RemoteAddr(sp);
        calls_.push(call);
    }
    /// The stack of the call looked at: it returns to the first of these, that to the second, ...
    void show(std::initializer_list<CodeAddr> return_addresses) {
        walker_.stack.frames = {FrameAddress::exact(kMalloc)};
        for (const CodeAddr address : return_addresses) {
            walker_.stack.frames.push_back(FrameAddress::return_address(address));
        }
    }
    bool nested(CodeAddr entry, std::uint64_t sp) {
        return is_nested(calls_, entry, RemoteAddr(sp), walker_, &abandoned_);
    }
    std::vector<CodeAddr> abandoned() const {
        std::vector<CodeAddr> entries;
        for (const PendingCall& call : abandoned_) {
            entries.push_back(call.entry);
        }
        return entries;
    }

    AllocatorFunction malloc_;
    AllocatorFunction new_;
    PendingCalls calls_;
    Shown walker_;
    std::vector<PendingCall> abandoned_;
};

TEST_F(NestingTest, NobodyWalksWhereTheStackPointersTell) {
    EXPECT_FALSE(nested(kMalloc, 0x7000));
    push(malloc_, kMalloc, 0x7000);
    EXPECT_TRUE(nested(kNew, 0x6f00));
    EXPECT_EQ(walker_.walks, 0);
    EXPECT_THAT(abandoned(), IsEmpty());
}

TEST_F(NestingTest, AHandlersCallIsItsOwn) {
    push(malloc_, kMalloc, 0x7000);
    calls_.signal_delivered();
    show({kOther, kCaller});
    walker_.stack.crossed_signal_frame = true;
    EXPECT_FALSE(nested(kHandlersMalloc, 0x6000));
    EXPECT_EQ(calls_.size(), 1U);
}

TEST_F(NestingTest, AHandlerThatHasReturnedChangesNothing) {
    push(malloc_, kMalloc, 0x7000);
    calls_.signal_delivered();
    show({kOther, kCaller});
    EXPECT_TRUE(nested(kNew, 0x6f00));
    EXPECT_EQ(walker_.walks, 1);
    EXPECT_TRUE(nested(kNew, 0x6f00));
    EXPECT_EQ(walker_.walks, 1) << "it is known that there is no handler any more";
}

TEST_F(NestingTest, ACallThatSiglongjmpHasLeftIsAbandoned) {
    push(malloc_, kMalloc, 0x7000);
    calls_.signal_delivered();
    show({kOther});
    EXPECT_FALSE(nested(kMalloc, 0x6f00));
    EXPECT_THAT(abandoned(), ElementsAre(kMalloc));
    EXPECT_TRUE(calls_.empty());
}

TEST_F(NestingTest, ACallThatAnExceptionHasLeftIsAbandoned) {
    push(new_, kNew, 0x7000);
    show({kOther, kOther});
    EXPECT_FALSE(nested(kMalloc, 0x6f00));
    EXPECT_THAT(abandoned(), ElementsAre(kNew));
}

TEST_F(NestingTest, ACallThatMayThrowAndIsOnTheStackIsNotLeft) {
    push(new_, kNew, 0x7000);
    show({kOther, kCaller});
    EXPECT_TRUE(nested(kMalloc, 0x6f00));
    EXPECT_THAT(abandoned(), IsEmpty());
}

TEST_F(NestingTest, AStackThatIsNotWholeProvesNothing) {
    push(new_, kNew, 0x7000);
    show({kOther, kOther});
    walker_.stack.end = StackEnd::no_rule;
    EXPECT_TRUE(nested(kMalloc, 0x6f00));
}

TEST_F(NestingTest, WhatACallHasJumpedToReturnsToItsCaller) {
    push(new_, kNew, 0x7000);
    show({kCaller});
    EXPECT_TRUE(nested(kMalloc, 0x7000));
    show({kOther});
    EXPECT_FALSE(nested(kMalloc, 0x7000));
    EXPECT_THAT(abandoned(), ElementsAre(kNew));
}

TEST_F(NestingTest, CallsAreAbandonedFromTheInnermostOn) {
    push(new_, kNew, 0x7000);
    push(malloc_, kMalloc, 0x6f00);
    EXPECT_FALSE(nested(kHandlersMalloc, 0x7100));
    EXPECT_THAT(abandoned(), ElementsAre(kMalloc, kNew));
}

} // namespace
} // namespace memleax
