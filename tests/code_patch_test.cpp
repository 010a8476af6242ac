// SPDX-License-Identifier: GPL-3.0-or-later
// Bytes that are put into a process's code, recognised, and taken out: our own process's.
#include "memleax/target/code_patch.hpp"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "memleax/target/code_barrier.hpp"

namespace memleax {
namespace {

/// A page that may not be written, with code-like bytes.
class CodePatchTest : public ::testing::Test {
  protected:
    CodePatchTest() : memory_(*RemoteMemory::open(Tid(getpid()))) {
        const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        page_ = static_cast<std::uint8_t*>(
            mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        for (std::size_t i = 0; i < size; ++i) {
            page_[i] = static_cast<std::uint8_t>(i + 1);
        }
        mprotect(page_, size, PROT_READ);
        at_ = CodeAddr(reinterpret_cast<std::uint64_t>(page_) + 64);
        patch_ = CodePatch::breakpoint(at_, {page_ + 64, 16});
    }
    std::vector<std::uint8_t> there() const { return {page_ + 60, page_ + 80}; }

    RemoteMemory memory_;
    std::uint8_t* page_ = nullptr;
    CodeAddr at_;
    CodePatch patch_;
};

TEST_F(CodePatchTest, IsInOnlyBetweenPutInAndTakeOut) {
    const auto before = there();
    EXPECT_FALSE(patch_.is_in(memory_));
    ASSERT_TRUE(patch_.put_in(memory_));
    EXPECT_TRUE(patch_.is_in(memory_));
    EXPECT_EQ(std::vector(page_ + 64, page_ + 64 + patch_.size),
              std::vector(arch::kBreakpointBytes.begin(), arch::kBreakpointBytes.end()));
    const auto taken_out = patch_.take_out(memory_);
    ASSERT_TRUE(taken_out);
    EXPECT_TRUE(*taken_out);
    EXPECT_FALSE(patch_.is_in(memory_));
    EXPECT_EQ(there(), before);
}

TEST_F(CodePatchTest, WhatWasNotPutInIsNotTakenOut) {
    const auto before = there();
    const auto taken_out = patch_.take_out(memory_);
    ASSERT_TRUE(taken_out);
    EXPECT_FALSE(*taken_out);
    EXPECT_EQ(there(), before);
}

TEST_F(CodePatchTest, WhatSomebodyElseHasWrittenStays) {
    ASSERT_TRUE(patch_.put_in(memory_));
    const std::uint8_t others[] = {0x77};
    ASSERT_TRUE(memory_.write(at_.as_data(), others));
    const auto now = there();
    const auto taken_out = patch_.take_out(memory_);
    ASSERT_TRUE(taken_out);
    EXPECT_FALSE(*taken_out);
    EXPECT_EQ(there(), now);
}

TEST_F(CodePatchTest, IsSeenThoughReadsHideIt) {
    memory_.mask(at_.as_data(), patch_.original_bytes());
    ASSERT_TRUE(patch_.put_in(memory_));
    EXPECT_EQ(memory_.try_read_object<std::uint8_t>(at_.as_data()), patch_.original[0]);
    EXPECT_TRUE(patch_.is_in(memory_));
}

TEST_F(CodePatchTest, NoneIsNowhere) {
    EXPECT_TRUE(CodePatch().empty());
    EXPECT_FALSE(CodePatch().is_in(memory_));
    CodePatch elsewhere = patch_;
    elsewhere.address = CodeAddr(8); // mapped nowhere
    EXPECT_FALSE(elsewhere.is_in(memory_));
    EXPECT_FALSE(elsewhere.put_in(memory_));
}

class JumpPatch : public CodePatchTest {
  protected:
    JumpPatch()
        : before_(there()), jump_(CodePatch::jump(at_, {page_ + 64, 16}, kJump)),
          all_{CodePatch::breakpoint(at_ + 100, {page_ + 164, 16}), jump_} {}
    void write(std::vector<std::uint8_t> bytes) {
        ASSERT_TRUE(memory_.write(at_.as_data(), bytes));
    }

    /// What is there when the first bytes, and those behind them, are these.
    [[nodiscard]] static std::vector<std::uint8_t> joined(std::span<const std::uint8_t> first,
                                                          std::span<const std::uint8_t> behind) {
        std::vector<std::uint8_t> bytes(first.begin(), first.begin() + kFirst);
        bytes.insert(bytes.end(), behind.begin() + kFirst, behind.end());
        return bytes;
    }

    static constexpr std::ptrdiff_t kFirst = arch::kBreakpointBytes.size();
    static constexpr arch::EntryJump kJump = [] { // bytes that are nowhere in the page
        arch::EntryJump jump{};
        for (std::size_t i = 0; i < jump.size(); ++i) {
            jump[i] = static_cast<std::uint8_t>(0xe0 + i);
        }
        return jump;
    }();
    std::vector<std::uint8_t> before_;
    CodePatch jump_;
    std::vector<CodePatch> all_;
};

TEST_F(JumpPatch, IsPutInBehindABreakpointAndTakenOutLikewise) {
    ASSERT_TRUE(patch_.put_in(memory_));
    ASSERT_TRUE(write_behind_breakpoints({&jump_, 1}, memory_));
    EXPECT_TRUE(patch_.is_in(memory_));
    CodeBarrier barrier;
    EXPECT_TRUE(barrier.is_over());
    barrier.begin();
    ASSERT_TRUE(barrier.result());
    EXPECT_TRUE(barrier.is_over());
    ASSERT_TRUE(write_over_breakpoints({&jump_, 1}, memory_));
    EXPECT_EQ(std::vector(page_ + 64, page_ + 64 + kJump.size()),
              std::vector(kJump.begin(), kJump.end()));
    ASSERT_TRUE(make_breakpoints_of_jumps(all_, memory_));
    EXPECT_TRUE(patch_.is_in(memory_));
    ASSERT_TRUE(patch_.take_out(memory_));
    EXPECT_EQ(there(), before_);
    // A second time there is nothing of ours.
    ASSERT_TRUE(make_breakpoints_of_jumps(all_, memory_));
    EXPECT_EQ(there(), before_);
}

// Whoever has put it in may have died at any moment; and children are forked at any. The last one
// is what a uprobe leaves that was there for a while.
TEST_F(JumpPatch, IsTakenOutInAnyState) {
    const std::vector<std::uint8_t> original(page_ + 64, page_ + 64 + kJump.size());
    std::vector<std::uint8_t> half = joined(original, kJump);
    half.back() = original.back();
    const std::vector<std::vector<std::uint8_t>> states{
        joined(arch::kBreakpointBytes, original), joined(arch::kBreakpointBytes, half),
        joined(arch::kBreakpointBytes, kJump), joined(kJump, kJump), joined(original, kJump)};
    for (const auto& state : states) {
        write(state);
        EXPECT_TRUE(jump_.is_in(memory_));
        const auto taken_out = jump_.take_out(memory_);
        ASSERT_TRUE(taken_out);
        EXPECT_TRUE(*taken_out);
        EXPECT_EQ(there(), before_);
        write(state);
        ASSERT_TRUE(make_breakpoints_of_jumps(all_, memory_));
        EXPECT_TRUE(patch_.is_in(memory_));
        ASSERT_TRUE(patch_.take_out(memory_));
        EXPECT_EQ(there(), before_);
    }
}

TEST_F(JumpPatch, WhatSomebodyElseHasWrittenStays) {
    std::vector<std::uint8_t> another_jump = joined(kJump, kJump);
    another_jump.back() ^= 2U;
    std::vector<std::uint8_t> another_first = joined(kJump, kJump);
    another_first.front() = 0x90;
    for (const auto& others : {another_jump, another_first}) {
        write(others);
        EXPECT_FALSE(jump_.is_in(memory_));
        ASSERT_TRUE(make_breakpoints_of_jumps(all_, memory_));
        EXPECT_EQ(std::vector(page_ + 64, page_ + 64 + kJump.size()), others);
    }
}

} // namespace
} // namespace memleax
