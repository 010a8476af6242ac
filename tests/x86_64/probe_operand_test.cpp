// SPDX-License-Identifier: GPL-3.0-or-later
// The operands of probes' arguments, in AT&T syntax; and the values that they have.
#include <cstring>
#include <map>
#include <optional>
#include <string>

#include <gtest/gtest.h>

#include "memleax/probes/probe_argument.hpp"

namespace memleax {
namespace {

using arch::parse_probe_operand;
using arch::ProbeOperand;
using Kind = ProbeOperand::Kind;

TEST(ProbeOperand, Constants) {
    EXPECT_EQ(parse_probe_operand("$5"), (ProbeOperand{.value = 5}));
    EXPECT_EQ(parse_probe_operand("$-1"), (ProbeOperand{.value = -1}));
    EXPECT_EQ(parse_probe_operand("$0x10"), (ProbeOperand{.value = 16}));
    EXPECT_EQ(parse_probe_operand("$18446744073709551615"), (ProbeOperand{.value = -1}));
    EXPECT_FALSE(parse_probe_operand("$"));
    EXPECT_FALSE(parse_probe_operand("$5x"));
    EXPECT_FALSE(parse_probe_operand("$symbol"));
}

TEST(ProbeOperand, Registers) {
    // By DWARF's numbers.
    const std::map<std::string, unsigned> registers{
        {"%rax", 0},  {"%edx", 1},   {"%cx", 2},   {"%bl", 3},    {"%rsi", 4},   {"%edi", 5},
        {"%bp", 6},   {"%rsp", 7},   {"%r8", 8},   {"%r9d", 9},   {"%r10w", 10}, {"%r11b", 11},
        {"%r12", 12}, {"%r13d", 13}, {"%r14", 14}, {"%r15b", 15}, {"%dil", 5},   {"%sil", 4}};
    for (const auto& [name, number] : registers) {
        EXPECT_EQ(parse_probe_operand(name),
                  (ProbeOperand{.kind = Kind::in_register, .base = number}))
            << name;
    }
    EXPECT_EQ(parse_probe_operand("%ch"),
              (ProbeOperand{.kind = Kind::in_register, .base = 2, .base_shift = 8}));
    for (const char* other : {"%xmm0", "%st(0)", "%fs:16", "rax", "%", "%r16", "%rip", "*%rax"}) {
        const auto parsed = parse_probe_operand(other);
        EXPECT_TRUE(!parsed || parsed->kind == Kind::in_memory) << other;
    }
    EXPECT_FALSE(parse_probe_operand("%xmm0"));
    EXPECT_FALSE(parse_probe_operand("%fs:16"));
}

TEST(ProbeOperand, Memory) {
    EXPECT_EQ(parse_probe_operand("(%rax)"), (ProbeOperand{.kind = Kind::in_memory, .base = 0}));
    EXPECT_EQ(parse_probe_operand("-24(%rbp)"),
              (ProbeOperand{.kind = Kind::in_memory, .value = -24, .base = 6}));
    EXPECT_EQ(parse_probe_operand("8(%rax,%rbx,4)"),
              (ProbeOperand{
                  .kind = Kind::in_memory, .value = 8, .base = 0, .index = 3, .index_shift = 2}));
    EXPECT_EQ(parse_probe_operand("(%rax,%rbx)"),
              (ProbeOperand{.kind = Kind::in_memory, .base = 0, .index = 3}));
    EXPECT_EQ(parse_probe_operand("16(,%rbx,8)"),
              (ProbeOperand{.kind = Kind::in_memory, .value = 16, .index = 3, .index_shift = 3}));
    EXPECT_EQ(parse_probe_operand("counter(%rip)"),
              (ProbeOperand{.kind = Kind::in_memory, .symbol = "counter"}));
    EXPECT_EQ(parse_probe_operand("counter.0+16(%rip)"),
              (ProbeOperand{.kind = Kind::in_memory, .value = 16, .symbol = "counter.0"}));
    EXPECT_EQ(parse_probe_operand("table-8(,%rax,8)"), (ProbeOperand{.kind = Kind::in_memory,
                                                                     .value = -8,
                                                                     .index = 0,
                                                                     .index_shift = 3,
                                                                     .symbol = "table"}));
    for (const char* other : {"", "(", "()", "8()", "(%rax", "8(%eax)", "(%rax,%rbx,3)",
                              "(%rax,%rbx,4,5)", "16(%rip)", "x@GOTPCREL(%rip)", "(%rax,,4)"}) {
        EXPECT_FALSE(parse_probe_operand(other)) << other;
    }
}

TEST(ProbeOperand, ArgumentsOfANote) {
    const auto arguments = parse_probe_arguments("-4@%edi 8@-24(%rbp)  1@$7 8f@%xmm1 %rax");
    ASSERT_EQ(arguments.size(), 5U);
    EXPECT_EQ(arguments[0], (ProbeArgument{4, true, parse_probe_operand("%edi")}));
    EXPECT_EQ(arguments[1], (ProbeArgument{8, false, parse_probe_operand("-24(%rbp)")}));
    EXPECT_EQ(arguments[2], (ProbeArgument{1, false, parse_probe_operand("$7")}));
    EXPECT_FALSE(arguments[3].operand);
    EXPECT_EQ(arguments[4], (ProbeArgument{8, false, parse_probe_operand("%rax")}));
    EXPECT_TRUE(parse_probe_arguments("").empty());
    EXPECT_FALSE(parse_probe_arguments("3@%eax")[0].operand);
    EXPECT_FALSE(parse_probe_arguments("@")[0].operand);
}

/// Sixteen bytes from 1000 on: 0xf0, 0xf1, ...
class SomeMemory final : public MemoryReader {
  public:
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        std::size_t got = 0;
        for (; got < out.size(); ++got) {
            const std::uint64_t at = from.value() + got - 1000;
            if (at >= 16) {
                break;
            }
            out[got] = static_cast<std::byte>(0xf0 + at);
        }
        return got;
    }
};

std::optional<std::int64_t> value(const char* text, const arch::Registers& regs) {
    SomeMemory memory;
    return value_of(parse_probe_arguments(text).at(0), regs, memory);
}

TEST(ProbeOperand, Values) {
    arch::Registers regs{};
    regs.rdi = 0x1122334455667788;
    regs.rcx = 0xfffffffffffffff9;
    regs.rbp = 1008;
    regs.rbx = 2;
    EXPECT_EQ(value("8@%rdi", regs), 0x1122334455667788);
    EXPECT_EQ(value("4@%edi", regs), 0x55667788);
    EXPECT_EQ(value("-4@%ecx", regs), -7);
    EXPECT_EQ(value("4@%ecx", regs), 0xfffffff9);
    EXPECT_EQ(value("1@%ch", regs), 0xff);
    EXPECT_EQ(value("-1@%cl", regs), -7);
    EXPECT_EQ(value("2@%di", regs), 0x7788);
    EXPECT_EQ(value("4@$-1", regs), 0xffffffff);
    EXPECT_EQ(value("-4@$-1", regs), -1);
    EXPECT_EQ(value("2@-8(%rbp)", regs), 0xf1f0);
    EXPECT_EQ(value("-2@-8(%rbp)", regs), static_cast<std::int16_t>(0xf1f0));
    EXPECT_EQ(value("1@-8(%rbp,%rbx,4)", regs), 0xf8);
    EXPECT_EQ(value("1@1001", regs), 0xf1);
    EXPECT_FALSE(value("8@4(%rbp)", regs)); // runs out of what is there
    EXPECT_FALSE(value("8@(%rdi)", regs));
    EXPECT_FALSE(value("8@counter(%rip)", regs)); // nobody has put its address in
    EXPECT_FALSE(value("8f@%xmm0", regs));
}

} // namespace
} // namespace memleax
