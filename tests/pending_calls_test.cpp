// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/calls/pending_calls.hpp"

#include <gtest/gtest.h>

namespace memleax {
namespace {

constexpr CodeAddr kMalloc(0x1000);
constexpr CodeAddr kCalloc(0x2000);
constexpr CodeAddr kCaller(0x9000);

PendingCall call(CodeAddr entry, std::uint64_t sp, CodeAddr return_address = kCaller) {
    PendingCall result;
    result.entry = entry;
    result.return_address = return_address;
    result.sp_after_return = RemoteAddr(sp);
    return result;
}

class PendingCallsTest : public testing::Test {
  protected:
    Nesting begin(CodeAddr entry, std::uint64_t sp) {
        return calls_.on_entry(entry, RemoteAddr(sp), &abandoned_);
    }
    PendingCalls calls_;
    std::vector<PendingCall> abandoned_;
};

TEST_F(PendingCallsTest, ACallIsOutermostWhenNothingIsPending) {
    EXPECT_EQ(begin(kMalloc, 0x7000), Nesting::outermost);
}

TEST_F(PendingCallsTest, ACallFromFurtherDownTheStackIsNested) {
    calls_.push(call(kCalloc, 0x7000));
    EXPECT_EQ(begin(kMalloc, 0x6f00), Nesting::nested);
    EXPECT_TRUE(abandoned_.empty());
}

TEST_F(PendingCallsTest, ATailCallIsNested) {
    calls_.push(call(kCalloc, 0x7000));
    EXPECT_EQ(begin(kMalloc, 0x7000), Nesting::nested);
}

TEST_F(PendingCallsTest, TheSameCallOnceMoreReplacesOneThatNeverReturned) {
    calls_.push(call(kMalloc, 0x7000));
    EXPECT_EQ(begin(kMalloc, 0x7000), Nesting::outermost);
    ASSERT_EQ(abandoned_.size(), 1U);
    EXPECT_TRUE(calls_.empty());
}

TEST_F(PendingCallsTest, AShorterStackAbandonsWhatWasPendingBelow) {
    calls_.push(call(kCalloc, 0x7000));
    EXPECT_EQ(begin(kMalloc, 0x7100), Nesting::outermost);
    EXPECT_EQ(abandoned_.size(), 1U);
}

TEST_F(PendingCallsTest, AReturnNeedsStackPointerAndAddress) {
    calls_.push(call(kMalloc, 0x7000));
    EXPECT_FALSE(calls_.on_return(kCaller, RemoteAddr(0x7010), &abandoned_));
    EXPECT_FALSE(calls_.on_return(kCaller + 1, RemoteAddr(0x7000), &abandoned_));
    EXPECT_TRUE(calls_.on_return(kCaller, RemoteAddr(0x7000), &abandoned_));
    EXPECT_FALSE(calls_.on_return(kCaller, RemoteAddr(0x7000), &abandoned_));
}

TEST_F(PendingCallsTest, AnOuterReturnAbandonsTheInnerOnes) {
    calls_.push(call(kMalloc, 0x7000));
    calls_.push(call(kMalloc, 0x6000));
    const auto returned = calls_.on_return(kCaller, RemoteAddr(0x7000), &abandoned_);
    ASSERT_TRUE(returned);
    EXPECT_EQ(returned->sp_after_return, RemoteAddr(0x7000));
    ASSERT_EQ(abandoned_.size(), 1U);
    EXPECT_EQ(abandoned_[0].sp_after_return, RemoteAddr(0x6000));
}

TEST_F(PendingCallsTest, AfterASignalOnlyTheStackCanTell) {
    calls_.signal_delivered();
    EXPECT_EQ(begin(kMalloc, 0x7000), Nesting::outermost) << "nothing was interrupted";
    calls_.push(call(kMalloc, 0x7000));
    calls_.signal_delivered();
    EXPECT_EQ(begin(kMalloc, 0x5000), Nesting::unclear);
    EXPECT_EQ(begin(kMalloc, 0x8000), Nesting::unclear) << "a handler on another stack";
    calls_.handler_gone();
    EXPECT_EQ(begin(kMalloc, 0x5000), Nesting::nested);
}

} // namespace
} // namespace memleax
