// SPDX-License-Identifier: GPL-3.0-or-later
#include <dwarf.h>
#include <gtest/gtest.h>

#include "../src/unwind/rule_cache.hpp"
#include "unwind_support.hpp"

namespace memleax {
namespace {

using Kind = RegisterRule::Kind;
using test::after_call;
using test::sp_row;
using test::sp_rule;

TEST(RuleFromRow, CfaFromStackPointer) {
    EXPECT_EQ(rule_from_row(sp_row(48)), sp_rule(48));
}

TEST(RuleFromRow, CfaFromFramePointer) {
    CfiRow row = sp_row(16);
    row.cfa_register = arch::kDwarfFramePointer;
    row.registers[arch::kDwarfFramePointer] = {Kind::offset, -16, {}};
    Rule expected = sp_rule(16);
    expected.cfa_base = Rule::CfaBase::fp;
    expected.fp_place = Rule::FpPlace::at_cfa;
    expected.fp_offset = -16;
    EXPECT_EQ(rule_from_row(row), expected);
}

// GCC, -O2, alignas(64): lea 8(%rsp),%r10; and $-64,%rsp; push -8(%r10); push %rbp; mov %rsp,%rbp;
// push %r10. The row: CFA = *(rbp - 8), caller's rbp at rbp + 0.
TEST(RuleFromRow, RealignedStack) {
    CfiRow row = sp_row(0);
    row.cfa_register.reset();
    constexpr auto breg_fp = static_cast<std::uint8_t>(DW_OP_breg0 + arch::kDwarfFramePointer);
    row.cfa_expression = {{breg_fp, static_cast<std::uint64_t>(-8), 0, 0}, {DW_OP_deref, 0, 0, 2}};
    row.registers[arch::kDwarfFramePointer] = {Kind::expression, 0, {{breg_fp, 0, 0, 0}}};
    Rule expected = sp_rule(-8);
    expected.cfa_base = Rule::CfaBase::at_fp;
    expected.fp_place = Rule::FpPlace::at_fp;
    EXPECT_EQ(rule_from_row(row), expected);
}

// A function that keeps its return address where the call has put it.
TEST(RuleFromRow, ReturnAddressInItsRegister) {
    CfiRow row = sp_row(0);
    row.registers[arch::kDwarfReturnAddress] = {Kind::same_value, 0, {}};
    Rule expected = sp_rule(0);
    expected.ra_offset = 0;
    expected.ra_place = Rule::RaPlace::in_register;
    EXPECT_EQ(rule_from_row(row), arch::kHasLinkRegister ? expected : Rule::of(Rule::Kind::slow));
}

TEST(RuleFromRow, UndefinedReturnAddressIsOutermost) {
    CfiRow row = sp_row(8);
    row.registers[arch::kDwarfReturnAddress] = {};
    EXPECT_EQ(rule_from_row(row).kind, Rule::Kind::outermost);
}

TEST(RuleFromRow, WhatNoRuleCanSayIsSlow) {
    const auto slow = [](auto change) {
        CfiRow row = sp_row(8);
        change(row);
        return rule_from_row(row).kind == Rule::Kind::slow;
    };
    EXPECT_TRUE(slow([](CfiRow& r) { r.cfa_register = 10; }));
    EXPECT_TRUE(slow([](CfiRow& r) { r.cfa_offset = 1LL << 40; }));
    EXPECT_TRUE(slow([](CfiRow& r) { r.cfa_register.reset(); }));
    EXPECT_TRUE(slow([](CfiRow& r) { r.signal_frame = true; }));
    EXPECT_TRUE(slow([](CfiRow& r) {
        r.registers[arch::kDwarfStackPointer] = {Kind::offset, 8, {}};
    }));
    EXPECT_TRUE(slow([](CfiRow& r) {
        r.registers[arch::kDwarfFramePointer] = {Kind::val_offset, 8, {}};
    }));
    EXPECT_TRUE(slow([](CfiRow& r) {
        r.registers[arch::kDwarfReturnAddress] = {Kind::expression, 0, {{DW_OP_lit0, 0, 0, 0}}};
    }));
}

TEST(RuleCache, FindsWhatWasPutInUntilCleared) {
    RuleCache cache;
    EXPECT_EQ(cache.find(after_call(0x401000)), nullptr);
    cache.insert(after_call(0x401000), sp_rule(32));
    ASSERT_NE(cache.find(after_call(0x401000)), nullptr);
    EXPECT_EQ(*cache.find(after_call(0x401000)), sp_rule(32));
    EXPECT_EQ(cache.find(test::at(0x401000)), nullptr);
    EXPECT_EQ(cache.find(test::at(0x400fff)), nullptr) << "same place in the tables, other frame";
    cache.clear();
    EXPECT_EQ(cache.find(after_call(0x401000)), nullptr);
}

TEST(RuleCache, AddressZeroIsNotCode) {
    RuleCache cache;
    ASSERT_NE(cache.find(test::at(0)), nullptr);
    EXPECT_EQ(cache.find(test::at(0))->kind, Rule::Kind::not_code);
}

TEST(RuleCache, HoldsTheWorkingSetOfAProgram) {
    RuleCache cache;
    constexpr unsigned kSites = 2000;
    for (unsigned i = 0; i < kSites; ++i) {
        cache.insert(after_call(0x7f0000001000 + 37 * i), sp_rule(static_cast<int>(i)));
    }
    unsigned kept = 0;
    for (unsigned i = 0; i < kSites; ++i) {
        const Rule* rule = cache.find(after_call(0x7f0000001000 + 37 * i));
        ASSERT_TRUE(rule == nullptr || *rule == sp_rule(static_cast<int>(i)));
        kept += rule != nullptr;
    }
    EXPECT_GT(kept, kSites * 8 / 10);
}

} // namespace
} // namespace memleax
