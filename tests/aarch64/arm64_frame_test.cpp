// SPDX-License-Identifier: GPL-3.0-or-later
// arm64: frames without unwind tables, signal frames, registers by meaning, rows that libdw
// misreads.
#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "arch.hpp"

namespace memleax::arch {
inline namespace aarch64 {
namespace {

using Words = std::vector<std::uint32_t>;
constexpr auto kInRegister = std::nullopt;

std::optional<FrameEdge> at(const Words& code, std::size_t word) {
    const auto bytes = std::as_bytes(std::span(code));
    const auto before = bytes.first(word * 4);
    return frame_edge(before.last(std::min(before.size(), kCodeBefore)), bytes.subspan(word * 4));
}

TEST(Arm64FrameEdge, FramePointerFunction) {
    const Words code{
        0xd503233f, // 0 paciasp
        0xa9bd7bfd, // 1 stp x29,x30,[sp,#-48]!
        0x910003fd, // 2 mov x29,sp
        0xf9000bf3, // 3 str x19,[sp,#16]
        0x94000040, // 4 bl
        0xf9400bf3, // 5 ldr x19,[sp,#16]
        0xa8c37bfd, // 6 ldp x29,x30,[sp],#48
        0xd50323bf, // 7 autiasp
        0xd65f03c0, // 8 ret
    };
    EXPECT_EQ(at(code, 0), (FrameEdge{0, kInRegister}));
    EXPECT_EQ(at(code, 1), (FrameEdge{0, kInRegister}));
    EXPECT_EQ(at(code, 2), (FrameEdge{48, -40})) << "x29 is not set yet";
    for (const std::size_t word : {3U, 4U, 5U, 6U}) {
        EXPECT_EQ(at(code, word), std::nullopt) << word;
    }
    EXPECT_EQ(at(code, 7), (FrameEdge{0, kInRegister}));
    EXPECT_EQ(at(code, 8), (FrameEdge{0, kInRegister}));
}

TEST(Arm64FrameEdge, LargeFrame) {
    const Words code{
        0xd10803ff, // 0 sub sp,sp,#512
        0xa9017bfd, // 1 stp x29,x30,[sp,#16]
        0x910043fd, // 2 add x29,sp,#16
    };
    EXPECT_EQ(at(code, 0), (FrameEdge{0, kInRegister}));
    EXPECT_EQ(at(code, 1), (FrameEdge{512, kInRegister}));
    EXPECT_EQ(at(code, 2), (FrameEdge{512, 24 - 512}));
}

TEST(Arm64FrameEdge, LeafFunctions) {
    const Words code{
        0xd10043ff, // 0 sub sp,sp,#16
        0xf90007e0, // 1 str x0,[sp,#8]
        0xb4000060, // 2 cbz x0,5
        0xf94007e0, // 3 ldr x0,[sp,#8]
        0xd503201f, // 4 nop
        0x910043ff, // 5 add sp,sp,#16
        0xd65f03c0, // 6 ret
    };
    EXPECT_EQ(at(code, 0), (FrameEdge{0, kInRegister}));
    for (const std::size_t word : {1U, 2U, 3U, 4U, 5U}) {
        EXPECT_EQ(at(code, word), (FrameEdge{16, kInRegister})) << word;
    }
    EXPECT_EQ(at(code, 6), (FrameEdge{0, kInRegister}));
}

// As musl is compiled (-fomit-frame-pointer).
TEST(Arm64FrameEdge, ReturnAddressIsLoadedAlone) {
    const Words code{
        0xf81e0ffe, // 0 str x30,[sp,#-32]!
        0xf9000bf3, // 1 str x19,[sp,#16]
        0xf9400bf3, // 2 ldr x19,[sp,#16]
        0xf84207fe, // 3 ldr x30,[sp],#32
        0xd65f03c0, // 4 ret
    };
    EXPECT_EQ(at(code, 0), (FrameEdge{0, kInRegister}));
    EXPECT_EQ(at(code, 1), (FrameEdge{32, -32}));
    EXPECT_EQ(at(code, 2), (FrameEdge{32, -32}));
    EXPECT_EQ(at(code, 3), (FrameEdge{32, -32}));
    EXPECT_EQ(at(code, 4), (FrameEdge{0, kInRegister}));
    const Words pair{
        0xa94153f3, // 0 ldp x19,x20,[sp,#16]
        0xa8c27bf5, // 1 ldp x21,x30,[sp],#32
        0xd65f03c0, // 2 ret
    };
    EXPECT_EQ(at(pair, 0), (FrameEdge{32, -24}));
    EXPECT_EQ(at(pair, 1), (FrameEdge{32, -24}));
}

TEST(Arm64FrameEdge, ProcedureLinkageTable) {
    const Words code{
        0xa9bf7bf0, // 0 stp x16,x30,[sp,#-16]!
        0xb0000090, // 1 adrp x16,...
        0xf947fe11, // 2 ldr x17,[x16,#4088]
        0x913fe210, // 3 add x16,x16,#0xff8
        0xd61f0220, // 4 br x17
        0xd503201f, // 5 nop
        0xd503201f, // 6 nop
        0xd503201f, // 7 nop
        0xb0000090, // 8 adrp x16,...
        0xf9400211, // 9 ldr x17,[x16]
        0x91000210, // 10 add x16,x16,#0
        0xd61f0220, // 11 br x17
    };
    EXPECT_EQ(at(code, 0), (FrameEdge{0, kInRegister}));
    for (const std::size_t word : {1U, 2U, 3U, 4U}) {
        EXPECT_EQ(at(code, word), (FrameEdge{16, -8})) << word;
    }
    for (const std::size_t word : {8U, 9U, 10U, 11U}) {
        EXPECT_EQ(at(code, word), (FrameEdge{0, kInRegister})) << word;
    }
}

TEST(Arm64FrameEdge, WhatIsNotFollowed) {
    EXPECT_EQ(at({0xd63f0000, 0xd65f03c0}, 0), std::nullopt) << "blr: may never return";
    EXPECT_EQ(at({0x910003bf, 0xd65f03c0}, 0), std::nullopt) << "mov sp,x29";
    EXPECT_EQ(at({0x14000000, 0xd65f03c0}, 0), std::nullopt) << "b to itself";
    EXPECT_EQ(at({0xd503201f}, 0), std::nullopt) << "the code ends";
    EXPECT_EQ(at({}, 0), std::nullopt);
}

TEST(Arm64SignalFrame, Registers) {
    std::vector<std::uint64_t> frame(4096 / 8);
    EXPECT_FALSE(looks_like_signal_frame(std::as_bytes(std::span(frame))));
    frame[592 / 8] = 0x0000021046508001; // struct fpsimd_context's head
    EXPECT_TRUE(looks_like_signal_frame(std::as_bytes(std::span(frame))));
    for (std::uint64_t i = 0; i < 31; ++i) {
        frame[312 / 8 + i] = 0x100 + i;
    }
    frame[560 / 8] = 0x7ff0;
    frame[568 / 8] = 0x1234;
    const auto regs = registers_from_signal_frame(std::as_bytes(std::span(frame)));
    ASSERT_TRUE(regs);
    EXPECT_EQ(pc(*regs), CodeAddr(0x1234));
    EXPECT_EQ(sp(*regs), RemoteAddr(0x7ff0));
    EXPECT_EQ(dwarf_register(*regs, 30), 0x11eU);
    EXPECT_EQ(kSignalFramePcOffset, 568U);
    EXPECT_FALSE(registers_from_signal_frame(std::as_bytes(std::span(frame)).first(583)));
    frame[136 / 8] = 1; // uc_link
    EXPECT_FALSE(looks_like_signal_frame(std::as_bytes(std::span(frame))));
}

TEST(Arm64SignalFrame, ReturnCode) {
    const Words code{0xd2801168, 0xd4000001}; // mov x8,#139; svc #0
    EXPECT_TRUE(is_signal_return_code(std::as_bytes(std::span(code))));
    EXPECT_FALSE(is_signal_return_code(std::as_bytes(std::span(code)).first(7)));
}

// Arm ARM, C6.2.40: its number is the debugger's or the program's to choose.
TEST(Arm64Breakpoint, IsAnyBrk) {
    const auto bytes_of = [](std::uint32_t word) {
        std::array<std::uint8_t, 4> bytes{};
        std::memcpy(bytes.data(), &word, sizeof word);
        return bytes;
    };
    EXPECT_TRUE(is_breakpoint(kBreakpointBytes));
    EXPECT_TRUE(is_breakpoint(bytes_of(0xd4200000)));  // brk #0
    EXPECT_TRUE(is_breakpoint(bytes_of(0xd4207d00)));  // brk #1000, __builtin_trap()
    EXPECT_TRUE(is_breakpoint(bytes_of(0xd43fffe0)));  // brk #0xffff
    EXPECT_FALSE(is_breakpoint(bytes_of(0xd4400000))); // hlt #0
    EXPECT_FALSE(is_breakpoint(bytes_of(0xd4000001))); // svc #0
    EXPECT_FALSE(is_breakpoint(bytes_of(0xd4200001))); // unallocated
    EXPECT_FALSE(is_breakpoint(bytes_of(0xd503201f))); // nop
    EXPECT_FALSE(is_breakpoint(std::span(kBreakpointBytes).first(3)));
}

TEST(Arm64Registers, ByMeaning) {
    Registers regs{};
    for (std::uint64_t i = 0; i < 31; ++i) {
        regs.x[i] = 0x100 + i;
    }
    regs.sp = 0x7000;
    regs.pc = 0x4000;
    EXPECT_EQ(argument(regs, 1), 0x101U);
    EXPECT_EQ(return_address_in_register(regs), CodeAddr(0x11e));
    EXPECT_EQ(sp_after_return(regs), RemoteAddr(0x7000));
    EXPECT_EQ(executed_breakpoint(regs), CodeAddr(0x4000)) << "brk does not go on by itself";
    EXPECT_EQ(dwarf_register(regs, 31), 0x7000U);
    EXPECT_EQ(dwarf_register(regs, 32), 0U);
    EXPECT_EQ(data_address(0x3400aaaa00001230), RemoteAddr(0xaaaa00001230)) << "tagged";

    const std::uint64_t arguments[] = {1, 2, 3};
    prepare_system_call(regs, CodeAddr(0x5000), 222, arguments);
    EXPECT_EQ(regs.x[8], 222U);
    EXPECT_EQ(regs.x[0], 1U);
    EXPECT_EQ(regs.x[2], 3U);
    EXPECT_EQ(pc(regs), CodeAddr(0x5000));
    regs.x[0] = static_cast<std::uint64_t>(-4);
    EXPECT_EQ(system_call_result(regs), -4);
    EXPECT_EQ(call_that_failed_with(regs, 4), 222);
    EXPECT_EQ(call_that_failed_with(regs, 5), std::nullopt);
    begin_system_call_again(regs, 77);
    EXPECT_EQ(regs.x[0], 77U);
    EXPECT_EQ(pc(regs), CodeAddr(0x4ffc));
}

// As a sleep of which some time is over already, after its registers were another call's.
TEST(Arm64Registers, TimeLimitsAreTheKernels) {
    const auto number_after = [](std::uint64_t number, std::uint64_t second, std::uint64_t fourth) {
        Registers regs{};
        regs.x[8] = number;
        regs.x[1] = second;
        regs.x[3] = fourth;
        continue_interrupted_call(regs);
        return regs.x[8];
    };
    constexpr std::uint64_t kRestart = 128;
    EXPECT_EQ(number_after(101, 0, 0), kRestart) << "nanosleep";
    EXPECT_EQ(number_after(115, 0, 0), kRestart) << "clock_nanosleep";
    EXPECT_EQ(number_after(115, 1, 0), 115U) << "until a moment";
    EXPECT_EQ(number_after(98, 128, 0x1000), kRestart) << "FUTEX_WAIT_PRIVATE with a limit";
    EXPECT_EQ(number_after(98, 128, 0), 98U) << "without";
    EXPECT_EQ(number_after(98, 128 | 9, 0x1000), 98U) << "FUTEX_WAIT_BITSET: until a moment";
    EXPECT_EQ(number_after(63, 0, 0), 63U) << "read";
}

// What a handler ends whatever its flags are.
TEST(Arm64Registers, CallsThatHandlersEnd) {
    const auto ends = [](std::uint64_t number, std::uint64_t second, std::uint64_t fourth) {
        Registers regs{};
        regs.x[8] = number;
        regs.x[1] = second;
        regs.x[3] = fourth;
        regs.pc = 0x4000;
        end_interrupted_call(regs);
        EXPECT_TRUE(regs.pc == 0x4000 || (regs.pc == 0x4004 && system_call_result(regs) == -4));
        return regs.pc == 0x4004;
    };
    EXPECT_TRUE(ends(73, 0, 0)) << "ppoll";
    EXPECT_TRUE(ends(133, 0, 0)) << "rt_sigsuspend";
    EXPECT_TRUE(ends(101, 0, 0)) << "nanosleep";
    EXPECT_TRUE(ends(98, 128, 0x1000)) << "FUTEX_WAIT_PRIVATE with a limit";
    EXPECT_FALSE(ends(98, 128, 0)) << "without: SA_RESTART tells";
    EXPECT_FALSE(ends(63, 0, 0)) << "read: SA_RESTART tells";
}

// What a thread gets by rt_sigreturn(2) is what it had: kernel, arch/arm64/kernel/signal.c,
// restore_sigframe.
TEST(Arm64SignalFrame, LeadsBackToTheRegistersThatItIsMadeOf) {
    Registers regs{};
    for (std::uint64_t i = 0; i < 31; ++i) {
        regs.x[i] = 0x1111111111111111 * (i % 16) + i;
    }
    regs.sp = 0x7fff0000;
    regs.pc = 0x400004;
    regs.pstate = 0x60001000;
    std::array<std::uint64_t, 66> vectors{}; // struct user_fpsimd_state
    for (std::size_t i = 0; i < vectors.size(); ++i) {
        vectors[i] = i * 0x0101010101010101;
    }
    const std::uint64_t mask = 0x0000000000014a02;
    const auto frame =
        return_frame(regs, mask, std::as_bytes(std::span(vectors)), RemoteAddr(0x10040));
    const auto bytes = std::as_bytes(std::span(frame));
    EXPECT_TRUE(looks_like_signal_frame(bytes));
    const auto back = registers_from_signal_frame(bytes);
    ASSERT_TRUE(back);
    EXPECT_EQ(std::memcmp(&*back, &regs, sizeof regs), 0);
    EXPECT_EQ(std::memcmp(frame.data() + kSignalFrameMaskOffset, &mask, sizeof mask), 0);
    const std::array<std::uint32_t, 2> head{0x46508001, 528};
    EXPECT_EQ(std::memcmp(frame.data() + 592, head.data(), sizeof head), 0);
    EXPECT_EQ(std::memcmp(frame.data() + 600, &vectors[64], 8), 0); // fpsr, fpcr
    EXPECT_EQ(std::memcmp(frame.data() + 608, vectors.data(), 512), 0);
    const std::array<std::uint32_t, 2> end{};
    EXPECT_EQ(std::memcmp(frame.data() + 592 + 528, end.data(), sizeof end), 0);
    EXPECT_TRUE(return_frame(regs, mask, {}, RemoteAddr(0x10040)).empty());
    regs.x[8] = 128; // restart_syscall(2): of which call nobody knows any more
    EXPECT_TRUE(
        return_frame(regs, mask, std::as_bytes(std::span(vectors)), RemoteAddr(0x10040)).empty());
}

/// NT_ARM_SVE with vectors of so many bytes (struct user_sve_header).
std::vector<std::byte> scalable_set(std::uint16_t length, std::uint16_t flags) {
    std::vector<std::byte> set(16 + std::size_t{32} * length + std::size_t{17} * length / 8 + 16);
    for (std::size_t i = 16; i < set.size(); ++i) {
        set[i] = static_cast<std::byte>(i * 7);
    }
    std::memcpy(set.data() + 8, &length, sizeof length);
    std::memcpy(set.data() + 12, &flags, sizeof flags);
    return set;
}

TEST(Arm64ScalableRegisters, WouldBeDiscardedOnlyIfInUse) {
    EXPECT_TRUE(would_be_discarded(scalable_set(64, 1)));
    EXPECT_FALSE(would_be_discarded(scalable_set(64, 0))) << "the vectors of NT_PRFPREG";
    EXPECT_FALSE(would_be_discarded(scalable_set(64, 2))) << "inherited by exec";
    const auto set = scalable_set(64, 1);
    EXPECT_FALSE(would_be_discarded(std::span(set).first(16))) << "the header only";
    EXPECT_FALSE(would_be_discarded({}));
}

// struct sve_context behind struct fpsimd_context.
TEST(Arm64ScalableRegisters, AreInTheFrameIfThereIsRoom) {
    const Registers regs{};
    const std::array<std::uint64_t, 66> vectors{};
    const auto frame_with = [&](int set, const std::vector<std::byte>& bytes) {
        return return_frame(regs, 0, std::as_bytes(std::span(vectors)), RemoteAddr(0x10040),
                            {set, bytes});
    };
    constexpr std::size_t kRecord = 592 + 528;
    for (const std::uint16_t length : {16, 48, 64}) {
        for (const bool streaming : {false, true}) {
            const auto set = scalable_set(length, 1);
            const auto frame = frame_with(streaming ? 0x40b : 0x405, set);
            const std::size_t bytes =
                std::size_t{32} * length + std::size_t{17} * length / 8; // z, p and FFR
            const std::uint32_t size = (16 + bytes + 15) / 16 * 16;
            ASSERT_GT(frame.size(), kRecord + size + 8);
            const std::array<std::uint32_t, 2> head{0x53564501, size};
            EXPECT_EQ(std::memcmp(frame.data() + kRecord, head.data(), sizeof head), 0);
            const std::array<std::uint16_t, 4> rest{length, std::uint16_t{streaming}, 0, 0};
            EXPECT_EQ(std::memcmp(frame.data() + kRecord + 8, rest.data(), sizeof rest), 0);
            EXPECT_EQ(std::memcmp(frame.data() + kRecord + 16, set.data() + 16, bytes), 0);
            const std::array<std::uint32_t, 2> end{};
            EXPECT_EQ(std::memcmp(frame.data() + kRecord + size, end.data(), sizeof end), 0);
        }
    }
    EXPECT_TRUE(frame_with(0x405, scalable_set(128, 1)).empty()) << "no room";
    auto cut = scalable_set(64, 1);
    cut.resize(1000);
    EXPECT_TRUE(frame_with(0x405, cut).empty());
    EXPECT_TRUE(frame_with(0x405, {}).empty());
}

} // namespace
} // namespace aarch64
} // namespace memleax::arch
