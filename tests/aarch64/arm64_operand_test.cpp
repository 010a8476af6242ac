// SPDX-License-Identifier: GPL-3.0-or-later
// arm64: the operands of probes' arguments.
#include "probe_operand.hpp"

#include <gtest/gtest.h>

namespace memleax::arch {
inline namespace aarch64 {

namespace {

using Kind = ProbeOperand::Kind;

TEST(Arm64Operand, ConstantsAndRegisters) {
    EXPECT_EQ(parse_probe_operand("5"), (ProbeOperand{.value = 5}));
    EXPECT_EQ(parse_probe_operand("#-5"), (ProbeOperand{.value = -5}));
    EXPECT_EQ(parse_probe_operand("xzr"), ProbeOperand{});
    EXPECT_EQ(parse_probe_operand("x0"), (ProbeOperand{.kind = Kind::in_register, .base = 0}));
    EXPECT_EQ(parse_probe_operand("w19"), (ProbeOperand{.kind = Kind::in_register, .base = 19}));
    EXPECT_EQ(parse_probe_operand("x30"), (ProbeOperand{.kind = Kind::in_register, .base = 30}));
    EXPECT_EQ(parse_probe_operand("sp"), (ProbeOperand{.kind = Kind::in_register, .base = 31}));
    for (const char* other : {"", "x31", "x-1", "v0", "d1", "x", "5x"}) {
        EXPECT_FALSE(parse_probe_operand(other)) << other;
    }
}

TEST(Arm64Operand, Memory) {
    EXPECT_EQ(parse_probe_operand("[x1]"), (ProbeOperand{.kind = Kind::in_memory, .base = 1}));
    EXPECT_EQ(parse_probe_operand("[sp, 12]"),
              (ProbeOperand{.kind = Kind::in_memory, .value = 12, .base = 31}));
    EXPECT_EQ(parse_probe_operand("[sp,#-16]"),
              (ProbeOperand{.kind = Kind::in_memory, .value = -16, .base = 31}));
    EXPECT_EQ(parse_probe_operand("[x1, x2]"),
              (ProbeOperand{.kind = Kind::in_memory, .base = 1, .index = 2}));
    EXPECT_EQ(parse_probe_operand("[x1, x2, lsl 3]"),
              (ProbeOperand{.kind = Kind::in_memory, .base = 1, .index = 2, .index_shift = 3}));
    for (const char* other : {"[", "[]", "[x1", "[w1]", "[x1, w2, sxtw 2]", "[x1, x2, lsl 4]",
                              "[x1, 8]!", "[x1, x2, 3, 4]", "[x1, 8, 8]"}) {
        EXPECT_FALSE(parse_probe_operand(other)) << other;
    }
}

TEST(Arm64Operand, ThePlaceOfAProbeIsANoOp) {
    const std::uint8_t nop[] = {0x1f, 0x20, 0x03, 0xd5};
    const std::uint8_t other[] = {0x1f, 0x20, 0x03, 0xd4};
    EXPECT_TRUE(is_probe_place(nop));
    EXPECT_FALSE(is_probe_place(other));
    EXPECT_FALSE(is_probe_place(std::span(nop).first(3)));
}

} // namespace
} // namespace aarch64
} // namespace memleax::arch
