// SPDX-License-Identifier: GPL-3.0-or-later
// The frame by which a thread gets its registers back from rt_sigreturn(2).
#include <array>
#include <cstddef>
#include <span>

#include <gtest/gtest.h>

#include "arch.hpp"

namespace memleax::arch {
namespace {

constexpr std::uint64_t kPoll = 7;
constexpr std::uint64_t kRestartSyscall = 219;
constexpr std::uint64_t kRestartBlock = -516ULL; // ERESTART_RESTARTBLOCK

class ReturnFrame : public ::testing::Test {
  protected:
    static Registers interrupted_in(std::uint64_t call) {
        Registers regs{};
        regs.rip = 0x400002;
        regs.rsp = 0x7fff0000;
        regs.orig_rax = call;
        regs.rax = kRestartBlock;
        return regs;
    }
    std::vector<std::uint8_t> frame_of(const Registers& regs) const {
        return return_frame(regs, 0, std::as_bytes(std::span(vectors_)), RemoteAddr(0x10040));
    }

  private:
    std::array<std::uint64_t, 104> vectors_{}; // an XSAVE area: the legacy part, and a header
};

TEST_F(ReturnFrame, StandsBeforeTheCallThatWasInterrupted) {
    const auto frame = frame_of(interrupted_in(kPoll));
    const auto back = registers_from_signal_frame(std::as_bytes(std::span(frame)));
    ASSERT_TRUE(back);
    EXPECT_EQ(back->rip, 0x400000U);
    EXPECT_EQ(back->rax, kPoll);
}

// Whose number it would need is the first interrupted call's.
TEST_F(ReturnFrame, ThereIsNoneWhereTheCallWasInterruptedBefore) {
    EXPECT_TRUE(frame_of(interrupted_in(kRestartSyscall)).empty());
}

} // namespace
} // namespace memleax::arch
