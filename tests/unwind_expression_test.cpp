// SPDX-License-Identifier: GPL-3.0-or-later
#include <limits>

#include <dwarf.h>
#include <gtest/gtest.h>

#include "../src/unwind/expression.hpp"
#include "unwind_support.hpp"

namespace memleax {
namespace {

using Value = std::optional<std::uint64_t>;
constexpr auto u = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };

class Expression : public ::testing::Test, public WordReader {
  protected:
    Expression() {
        registers_.set(6, 0x6000);
        registers_.set(7, 0x7000);
    }
    std::optional<std::uint64_t> word(RemoteAddr at) override {
        return memory_.try_read_object<std::uint64_t>(at);
    }
    Value value(const DwarfExpression& expression) {
        return evaluate(expression, {registers_, *this, std::nullopt, false});
    }
    Value value_with_cfa(const DwarfExpression& expression, std::uint64_t cfa) {
        return evaluate(expression, {registers_, *this, cfa, true});
    }
    /// a op b
    Value binary(std::uint8_t op, std::int64_t a, std::int64_t b) {
        return value({{DW_OP_const8s, u(a), 0, 0}, {DW_OP_const8s, u(b), 0, 9}, {op, 0, 0, 18}});
    }
    test::FakeMemory memory_;
    RegisterFile registers_;
};

TEST_F(Expression, Arithmetic) {
    EXPECT_EQ(binary(DW_OP_plus, 7, -9), u(-2));
    EXPECT_EQ(binary(DW_OP_minus, 7, 9), u(-2));
    EXPECT_EQ(binary(DW_OP_mul, -7, 3), u(-21));
    EXPECT_EQ(binary(DW_OP_div, -7, 2), u(-3));
    EXPECT_EQ(binary(DW_OP_div, std::numeric_limits<std::int64_t>::min(), -1),
              u(std::numeric_limits<std::int64_t>::min()));
    EXPECT_EQ(binary(DW_OP_mod, 7, 4), 3U);
    EXPECT_EQ(binary(DW_OP_div, 1, 0), std::nullopt);
    EXPECT_EQ(binary(DW_OP_mod, 1, 0), std::nullopt);
    EXPECT_EQ(binary(DW_OP_and, 12, 10), 8U);
    EXPECT_EQ(binary(DW_OP_or, 12, 10), 14U);
    EXPECT_EQ(binary(DW_OP_xor, 12, 10), 6U);
    EXPECT_EQ(binary(DW_OP_shl, 1, 4), 16U);
    EXPECT_EQ(binary(DW_OP_shl, 1, 64), 0U);
    EXPECT_EQ(binary(DW_OP_shr, -1, 60), 15U);
    EXPECT_EQ(binary(DW_OP_shra, -16, 2), u(-4));
    EXPECT_EQ(binary(DW_OP_shra, -16, 200), u(-1));
    EXPECT_EQ(value({{DW_OP_lit5}, {DW_OP_neg}}), u(-5));
    EXPECT_EQ(value({{DW_OP_lit0}, {DW_OP_not}}), u(-1));
    EXPECT_EQ(value({{DW_OP_const1s, u(-3), 0, 0}, {DW_OP_abs, 0, 0, 2}}), 3U);
}

TEST_F(Expression, ComparisonsAreSigned) {
    EXPECT_EQ(binary(DW_OP_lt, -1, 1), 1U);
    EXPECT_EQ(binary(DW_OP_le, 1, 1), 1U);
    EXPECT_EQ(binary(DW_OP_gt, -1, 1), 0U);
    EXPECT_EQ(binary(DW_OP_ge, 1, -1), 1U);
    EXPECT_EQ(binary(DW_OP_eq, 1, 1), 1U);
    EXPECT_EQ(binary(DW_OP_ne, 1, 1), 0U);
}

TEST_F(Expression, Stack) {
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_dup}, {DW_OP_plus}}), 2U);
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_lit2}, {DW_OP_drop}}), 1U);
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_lit2}, {DW_OP_over}}), 1U);
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_lit2}, {DW_OP_lit3}, {DW_OP_pick, 2, 0, 3}}), 1U);
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_lit3}, {DW_OP_swap}, {DW_OP_minus}}), 2U);
    // rot: the top goes to the third place: 1 2 3 -> 3 1 2
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_lit2}, {DW_OP_lit3}, {DW_OP_rot}}), 2U);
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_lit2}, {DW_OP_lit3}, {DW_OP_rot}, {DW_OP_drop}}), 1U);
    EXPECT_EQ(value({}), std::nullopt);
    EXPECT_EQ(value({{DW_OP_plus}}), std::nullopt);
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_over}}), std::nullopt);
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_swap}}), std::nullopt);
    EXPECT_EQ(value({{DW_OP_lit1}, {DW_OP_rot}}), std::nullopt);
    EXPECT_EQ(value(DwarfExpression(65, DwarfOp{DW_OP_lit1, 0, 0, 0})), std::nullopt);
}

TEST_F(Expression, RegistersAndMemory) {
    memory_.put(0x6ff8, 0x8877665544332211);
    EXPECT_EQ(value({{DW_OP_breg7, u(-8), 0, 0}, {DW_OP_deref}}), 0x8877665544332211);
    EXPECT_EQ(value({{DW_OP_bregx, 7, u(-8), 0}, {DW_OP_deref_size, 2, 0, 3}}), 0x2211U);
    EXPECT_EQ(value({{DW_OP_breg6, 0, 0, 0}, {DW_OP_plus_uconst, 16, 0, 2}}), 0x6010U);
    EXPECT_EQ(value({{DW_OP_breg3, 0, 0, 0}}), std::nullopt) << "not known";
    EXPECT_EQ(value({{DW_OP_bregx, 1000, 0, 0}}), std::nullopt) << "no such register";
    EXPECT_EQ(value({{DW_OP_lit0}, {DW_OP_deref}}), std::nullopt);
    EXPECT_EQ(value({{DW_OP_breg7, u(-8), 0, 0}, {DW_OP_deref_size, 9, 0, 3}}), std::nullopt);
    EXPECT_EQ(value({{DW_OP_reg0}}), std::nullopt) << "not one that a row may have";
}

TEST_F(Expression, Cfa) {
    EXPECT_EQ(value_with_cfa({{DW_OP_plus_uconst, 8, 0, 0}}, 0x100), 0x108U);
    EXPECT_EQ(value_with_cfa({{DW_OP_drop}, {DW_OP_call_frame_cfa}}, 0x100), 0x100U);
    EXPECT_EQ(value({{DW_OP_call_frame_cfa}}), std::nullopt);
}

TEST_F(Expression, Branches) {
    //  0 lit1; 1 bra +1 -> 5; 4 lit7; 5 lit9
    EXPECT_EQ(value({{DW_OP_lit1, 0, 0, 0},
                     {DW_OP_bra, 1, 0, 1},
                     {DW_OP_lit7, 0, 0, 4},
                     {DW_OP_lit9, 0, 0, 5}}),
              9U);
    //  0 lit3; 1 skip +1 -> 5, which is the end; 4 lit7
    EXPECT_EQ(value({{DW_OP_lit3, 0, 0, 0}, {DW_OP_skip, 1, 0, 1}, {DW_OP_lit7, 0, 0, 4}}), 3U);
    EXPECT_EQ(value({{DW_OP_lit3, 0, 0, 0}, {DW_OP_skip, u(-4), 0, 1}}), std::nullopt)
        << "a loop for ever fills the stack";
    EXPECT_EQ(value({{DW_OP_skip, u(-3), 0, 0}}), std::nullopt) << "a loop for ever does nothing";
    EXPECT_EQ(value({{DW_OP_lit3, 0, 0, 0}, {DW_OP_const2u, 7, 0, 1}, {DW_OP_skip, u(-5), 0, 4}}),
              std::nullopt)
        << "into the middle of an operation";
}

// .plt: CFA = rsp + 8, or rsp + 16 after the entry's push, which ends at byte 11 of 16.
TEST_F(Expression, ProcedureLinkageTable) {
    const DwarfExpression plt{
        {DW_OP_breg7, 8, 0, 0}, {DW_OP_breg16, 0, 0, 2}, {DW_OP_lit15, 0, 0, 4},
        {DW_OP_and, 0, 0, 5},   {DW_OP_lit11, 0, 0, 6},  {DW_OP_ge, 0, 0, 7},
        {DW_OP_lit3, 0, 0, 8},  {DW_OP_shl, 0, 0, 9},    {DW_OP_plus, 0, 0, 10}};
    registers_.set(16, 0x4010);
    EXPECT_EQ(value(plt), 0x7008U);
    registers_.set(16, 0x401b);
    EXPECT_EQ(value(plt), 0x7010U);
}

} // namespace
} // namespace memleax
