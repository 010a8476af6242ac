// SPDX-License-Identifier: GPL-3.0-or-later
#include <cstring>

#include <dwarf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../src/unwind/walker.hpp"
#include "cpu_support.hpp"
#include "unwind_support.hpp"

namespace memleax {
namespace {

using test::after_call;
using test::at;
using test::sp_row;
using test::sp_rule;
using ::testing::ElementsAre;
using Kind = RegisterRule::Kind;

constexpr std::uint64_t kSp = 0x7ffc00001000;

class Walk : public ::testing::Test {
  protected:
    Walk() {
        arch::set_sp(regs_, RemoteAddr(kSp));
        arch::set_pc(regs_, CodeAddr(0x1000));
        memory_.make_readable(kSp, kSp + 0x1000);
    }
    const UnwoundStack& walk(unsigned limit = 100) {
        walker_.walk(regs_, Walker::From::any_instruction, limit, &out_);
        return out_;
    }
    /// A full row that says the same as the rule.
    void add(FrameAddress frame, std::int32_t cfa_offset) {
        rules_.rules[frame] = sp_rule(cfa_offset);
        rules_.rows[frame] = sp_row(cfa_offset);
    }
    void add(FrameAddress frame, Rule::Kind kind) { rules_.rules[frame] = Rule::of(kind); }
    /// CFA = fp + 16
    void add_with_frame_pointer(FrameAddress frame) {
        Rule rule = sp_rule(16);
        rule.cfa_base = Rule::CfaBase::fp;
        rules_.rules[frame] = rule;
    }
    //      kSp + 0x10      callers_fp           frame of 1000, which saves the frame pointer
    //      kSp + 0x18      2000
    //      callers_fp + 8  3000                 frame of 2000, which has one
    //                                           frame of 3000: outermost
    void put_frame_that_saves_the_frame_pointer(std::uint64_t callers_fp) {
        Rule saves = sp_rule(0x20);
        saves.fp_place = Rule::FpPlace::at_cfa;
        saves.fp_offset = -16;
        rules_.rules[at(0x1000)] = saves;
        add_with_frame_pointer(after_call(0x2000));
        add(after_call(0x3000), Rule::Kind::outermost);
        memory_.put(kSp + 0x10, callers_fp);
        memory_.put(kSp + 0x18, 0x2000);
        memory_.put(callers_fp + 8, 0x3000);
    }

    test::FakeMemory memory_;
    test::FakeRules rules_;
    Walker walker_{rules_, memory_};
    arch::Registers regs_{};
    UnwoundStack out_;
};

//      kSp + 0x00  ...        frame of 1000
//      kSp + 0x18  2000
//      kSp + 0x20  ...        frame of 2000
//      kSp + 0x28  3000
//      kSp + 0x30             frame of 3000: outermost
TEST_F(Walk, FromFrameToFrame) {
    add(at(0x1000), 0x20);
    add(after_call(0x2000), 0x10);
    add(after_call(0x3000), Rule::Kind::outermost);
    memory_.put(kSp + 0x18, 0x2000);
    memory_.put(kSp + 0x28, 0x3000);
    EXPECT_THAT(walk().frames, ElementsAre(at(0x1000), after_call(0x2000), after_call(0x3000)));
    EXPECT_EQ(out_.end, StackEnd::outermost);
    EXPECT_EQ(memory_.reads, 1U);
    EXPECT_EQ(rules_.asked, 3U);

    EXPECT_EQ(walk().frames.size(), 3U);
    EXPECT_EQ(memory_.reads, 2U) << "one for each walk";
    EXPECT_EQ(rules_.asked, 3U) << "the rules are cached";
    EXPECT_EQ(walker_.statistics().rule_misses, 3U);
    EXPECT_EQ(walker_.statistics().walks, 2U);
    EXPECT_EQ(walker_.statistics().frames, 6U);
    EXPECT_EQ(walker_.statistics().stack_reads, 2U);

    EXPECT_THAT(walk(2).frames, ElementsAre(at(0x1000), after_call(0x2000)));
    EXPECT_EQ(out_.end, StackEnd::limit);
    EXPECT_THAT(walk(3).end, StackEnd::outermost) << "whole, though the limit was reached";
    EXPECT_TRUE(walk(0).frames.empty());
}

TEST_F(Walk, AtAFunctionsEntryNoRuleIsNeeded) {
    add(after_call(0x2000), 0x10);
    add(after_call(0x3000), Rule::Kind::outermost);
    arch::set_sp(regs_, RemoteAddr(kSp + test::kEntryCfaOffset));
    test::call(regs_, memory_, 0x2000);
    memory_.put(kSp + test::kEntryCfaOffset + 0x8, 0x3000);
    walker_.walk(regs_, Walker::From::function_entry, 10, &out_);
    EXPECT_THAT(out_.frames, ElementsAre(at(0x1000), after_call(0x2000), after_call(0x3000)));
    EXPECT_EQ(out_.end, StackEnd::outermost);
}

// A signed return address (pointer authentication) is nobody's key with its signature.
TEST_F(Walk, SignaturesAreTakenOff) {
    constexpr std::uint64_t kSignature = 0x007f000000000000;
    walker_.set_signature_mask(kSignature);
    add(at(0x1000), 0x20);
    add(after_call(0x2000), Rule::Kind::frame_pointer);
    add(after_call(0x3000), Rule::Kind::outermost);
    test::set_frame_pointer(regs_, kSp + 0x40);
    memory_.put(kSp + 0x18, 0x2000 | 0x0055000000000000);
    memory_.put(kSp + 0x48, 0x3000 | kSignature);
    EXPECT_THAT(walk().frames, ElementsAre(at(0x1000), after_call(0x2000), after_call(0x3000)));
    EXPECT_EQ(out_.end, StackEnd::outermost);
    walker_.set_signature_mask(0);
    EXPECT_EQ(walk().end, StackEnd::not_code);
}

TEST_F(Walk, FramePointerIsFollowedThroughFramesThatSaveIt) {
    test::set_frame_pointer(regs_, kSp + 0x100); // of no use: 1000 has none of its own
    put_frame_that_saves_the_frame_pointer(kSp + 0x80);
    EXPECT_EQ(walk().frames.size(), 3U);
    EXPECT_EQ(out_.end, StackEnd::outermost);
}

TEST_F(Walk, RealignedStackIsFast) {
    test::set_frame_pointer(regs_, kSp + 0x40);
    Rule rule = sp_rule(-8); // CFA = *(fp - 8), fp at fp + 0
    rule.cfa_base = Rule::CfaBase::at_fp;
    rule.fp_place = Rule::FpPlace::at_fp;
    rules_.rules[at(0x1000)] = rule;
    add_with_frame_pointer(after_call(0x2000));
    add(after_call(0x3000), Rule::Kind::outermost);
    memory_.put(kSp + 0x38, kSp + 0x90);
    memory_.put(kSp + 0x40, kSp + 0xc0);
    memory_.put(kSp + 0x88, 0x2000);
    memory_.put(kSp + 0xc8, 0x3000);
    EXPECT_EQ(walk().frames.size(), 3U);
    EXPECT_EQ(walker_.statistics().slow_walks, 0U);
}

// 2000 needs rbx, which 1000 saved: the walk must begin anew with all registers.
TEST_F(Walk, SlowFrameFindsARegisterThatItsCalleeSaved) {
    add(at(0x1000), 0x20);
    rules_.rows[at(0x1000)].registers[3] = {Kind::offset, -16, {}};
    add(after_call(0x2000), Rule::Kind::slow);
    CfiRow row = sp_row(8); // CFA = rbx + 8
    row.cfa_register = 3;
    rules_.rows[after_call(0x2000)] = row;
    add(after_call(0x3000), Rule::Kind::outermost);
    rules_.rows[after_call(0x3000)] = sp_row(8);
    rules_.rows[after_call(0x3000)].registers[arch::kDwarfReturnAddress] = {};
    memory_.put(kSp + 0x10, kSp + 0x50);
    memory_.put(kSp + 0x18, 0x2000);
    memory_.put(kSp + 0x50, 0x3000);
    EXPECT_THAT(walk().frames, ElementsAre(at(0x1000), after_call(0x2000), after_call(0x3000)));
    EXPECT_EQ(out_.end, StackEnd::outermost);
    EXPECT_EQ(walker_.statistics().slow_walks, 1U);
    EXPECT_EQ(memory_.reads, 1U);
}

//      kSp + 0x00  kSp + 0x80           frame of 1000: our own code
//      kSp + 0x08  2000                 frame of 2000, which has a frame pointer
//      kSp + 0x88  3000                 frame of 3000, which needs rows
//      kSp + 0xa8  4000                 frame of 4000: outermost
TEST_F(Walk, OurOwnFrameKeepsItsCallersFramePointer) {
    rules_.rules[at(0x1000)] = rule_by_frame_pointer(Rule::Kind::own);
    test::set_frame_pointer(regs_, kSp);
    add_with_frame_pointer(after_call(0x2000));
    rules_.rows[after_call(0x2000)] = sp_row(16);
    rules_.rows[after_call(0x2000)].cfa_register = arch::kDwarfFramePointer;
    add(after_call(0x3000), Rule::Kind::slow);
    rules_.rows[after_call(0x3000)] = sp_row(0x20);
    add(after_call(0x4000), Rule::Kind::outermost);
    rules_.rows[after_call(0x4000)] = sp_row(8);
    rules_.rows[after_call(0x4000)].registers[arch::kDwarfReturnAddress] = {};
    memory_.put(kSp, kSp + 0x80);
    memory_.put(kSp + 0x08, 0x2000);
    memory_.put(kSp + 0x88, 0x3000);
    memory_.put(kSp + 0xa8, 0x4000);
    EXPECT_THAT(walk().frames,
                ElementsAre(after_call(0x2000), after_call(0x3000), after_call(0x4000)));
    EXPECT_EQ(out_.end, StackEnd::outermost);
    EXPECT_EQ(walker_.statistics().slow_walks, 1U);
}

TEST_F(Walk, SlowFrameWithoutItsRegisterEndsTheStack) {
    add(at(0x1000), Rule::Kind::frame_pointer); // may have changed rbx
    test::set_frame_pointer(regs_, kSp + 0x20);
    memory_.put(kSp + 0x28, 0x2000);
    add(after_call(0x2000), Rule::Kind::slow);
    CfiRow row = sp_row(8);
    row.cfa_register = 3;
    rules_.rows[after_call(0x2000)] = row;
    EXPECT_EQ(walk().frames.size(), 2U);
    EXPECT_EQ(out_.end, StackEnd::bad_rule);
}

// GCC, -march=armv8-a+sve: CFA = sp + 16 + 8 * VG
TEST_F(Walk, FrameWithScalableVectorsSaysSo) {
    add(at(0x1000), Rule::Kind::slow);
    CfiRow row = sp_row(0);
    row.cfa_register.reset();
    row.cfa_expression = {{static_cast<std::uint8_t>(DW_OP_breg0 + 31), 0, 0, 0},
                          {DW_OP_bregx, arch::kDwarfVectorLength, 0, 2},
                          {DW_OP_lit8, 0, 0, 5},
                          {DW_OP_mul, 0, 0, 6},
                          {DW_OP_plus_uconst, 16, 0, 7},
                          {DW_OP_plus, 0, 0, 9}};
    rules_.rows[at(0x1000)] = row;
    EXPECT_THAT(walk().frames, ElementsAre(at(0x1000)));
    EXPECT_EQ(out_.end, StackEnd::vector_length);
}

TEST_F(Walk, FramePointersWhereThereAreNoTables) {
    add(at(0x1000), Rule::Kind::frame_pointer);
    add(after_call(0x2000), Rule::Kind::frame_pointer);
    test::set_frame_pointer(regs_, kSp + 0x20);
    memory_.put(kSp + 0x20, kSp + 0x60);
    memory_.put(kSp + 0x28, 0x2000);
    memory_.put(kSp + 0x60, 0);
    memory_.put(kSp + 0x68, 0x2000);
    EXPECT_THAT(walk().frames, ElementsAre(at(0x1000), after_call(0x2000), after_call(0x2000)));
    EXPECT_EQ(out_.end, StackEnd::outermost) << "a frame pointer of 0";

    memory_.put(kSp + 0x28, 0x9999);
    EXPECT_THAT(walk().frames, ElementsAre(at(0x1000)));
    EXPECT_EQ(out_.end, StackEnd::no_rule) << "what fp points to is no return address";
    for (const std::uint64_t fp : {kSp + 0x21, kSp - 8, kSp + (1 << 24)}) {
        test::set_frame_pointer(regs_, fp);
        EXPECT_EQ(walk().end, StackEnd::no_rule) << std::hex << fp;
    }
}

TEST_F(Walk, OverASignalFrameToAnotherStack) {
    constexpr std::uint64_t other = 0x7f0000010000;
    add(at(0x1000), 8);
    add(after_call(0x2000), Rule::Kind::signal_frame);
    add(at(0x3000), 0x10);
    add(after_call(0x4000), Rule::Kind::outermost);
    memory_.put(kSp, 0x2000);
    test::put_signal_frame(memory_, kSp + 8, other, 0x3000);
    memory_.make_readable(other, other + 0x100);
    memory_.put(other + 8, 0x4000);
    EXPECT_THAT(walk().frames,
                ElementsAre(at(0x1000), after_call(0x2000), at(0x3000), after_call(0x4000)));
    EXPECT_EQ(out_.end, StackEnd::outermost);
    EXPECT_TRUE(out_.crossed_signal_frame);

    test::put_signal_frame(memory_, kSp + 8, other, 0x6666); // a call through a bad pointer
    EXPECT_THAT(walk().frames, ElementsAre(at(0x1000), after_call(0x2000), at(0x6666)));
    EXPECT_EQ(out_.end, StackEnd::not_code);
}

// Split stacks: a function with a frame pointer has gone over to a piece of its own, whose guard
// page, or much else, lies between it and its caller's.
TEST_F(Walk, ToAnotherPieceOfASplitStack) {
    const auto end_over = [this](std::uint64_t piece) {
        put_frame_that_saves_the_frame_pointer(piece);
        return walk().end;
    };
    memory_.make_readable(kSp - 0x3000, kSp - 0x1000);
    EXPECT_EQ(end_over(kSp - 0x2000), StackEnd::outermost); // below it, and near
    EXPECT_THAT(out_.frames, ElementsAre(at(0x1000), after_call(0x2000), after_call(0x3000)));
    memory_.make_readable(kSp + 0x2000, kSp + 0x3000);
    EXPECT_EQ(end_over(kSp + 0x2100), StackEnd::outermost); // above it
    memory_.make_readable(kSp - 0x1000, kSp);
    EXPECT_EQ(end_over(kSp - 0x2000), StackEnd::not_increasing); // no gap: it is the same stack
    EXPECT_EQ(end_over(kSp - 0x100000), StackEnd::outermost);    // far below it
}

// A frame pointer is a guess where there are no tables, and never leads inwards.
TEST_F(Walk, AGuessDoesNotLeadToAnotherStack) {
    constexpr std::uint64_t kNear = kSp - 0x2000; // with a gap between
    constexpr std::uint64_t kFar = kSp - 0x100000;
    add(at(0x1000), 0x20);
    add(after_call(0x2000), Rule::Kind::frame_pointer);
    add(after_call(0x3000), Rule::Kind::outermost);
    memory_.put(kSp + 0x18, 0x2000);
    for (const Rule::Kind first : {Rule::Kind::regular, Rule::Kind::slow}) {
        rules_.rules[at(0x1000)].kind = first;
        walker_.forget();
        for (const std::uint64_t stack : {kNear, kFar}) {
            memory_.make_readable(stack, stack + 0x100);
            memory_.put(stack + 8, 0x3000);
            test::set_frame_pointer(regs_, stack);
            EXPECT_EQ(walk().end, StackEnd::no_rule) << std::hex << stack;
            EXPECT_THAT(out_.frames, ElementsAre(at(0x1000), after_call(0x2000)));
        }
    }
    EXPECT_EQ(walker_.statistics().slow_walks, 2U);
}

TEST_F(Walk, SignalFramesThatLeadInACircleEnd) {
    add(at(0x1000), Rule::Kind::signal_frame);
    test::put_signal_frame(memory_, kSp, kSp, 0x1000);
    EXPECT_EQ(walk(1000000).end, StackEnd::not_increasing);
    EXPECT_LT(out_.frames.size(), 100U);
}

TEST_F(Walk, EndsSayWhy) {
    add(at(0x1000), 0x20);
    memory_.put(kSp + 0x18, 0);
    EXPECT_EQ(walk().end, StackEnd::outermost);
    memory_.put(kSp + 0x18, 0x2000);
    EXPECT_EQ(walk().end, StackEnd::not_code);
    memory_.put(kSp + 0x18, (1ULL << 63) | 0x1000);
    EXPECT_EQ(walk().end, StackEnd::not_code);

    walker_.forget();
    add(after_call(0x2000), 0x2000); // leads out of what is readable
    memory_.put(kSp + 0x18, 0x2000);
    EXPECT_EQ(walk().end, StackEnd::bad_memory);

    walker_.forget();
    add(after_call(0x2000), -0x10);
    EXPECT_EQ(walk().end, StackEnd::not_increasing);
    walker_.forget();
    rules_.rows.erase(after_call(0x2000));
    add(after_call(0x2000), Rule::Kind::slow);
    EXPECT_EQ(walk().end, StackEnd::bad_rule);
    walker_.forget();
    add(after_call(0x2000), Rule::Kind::none);
    EXPECT_EQ(walk().end, StackEnd::no_rule);
    walker_.forget();
    add(at(0x1000), Rule::Kind::not_code);
    EXPECT_EQ(walk().end, StackEnd::not_code);
    EXPECT_EQ(out_.frames.size(), 1U) << "the pc is known, whatever it is";
}

// 100,000 frames of 16 bytes: the window moves along, and is small again for the next walk.
TEST_F(Walk, DeepRecursion) {
    constexpr unsigned kDepth = 100000;
    memory_.make_readable(kSp, kSp + kDepth * 16 + 64);
    add(at(0x1000), 16);
    add(after_call(0x2000), 16);
    for (unsigned i = 0; i < kDepth; ++i) {
        memory_.put(kSp + 16 * i + 8, i + 1 < kDepth ? 0x2000 : 0);
    }
    EXPECT_EQ(walk(kDepth * 2).frames.size(), kDepth);
    EXPECT_EQ(out_.end, StackEnd::outermost);
    EXPECT_LT(memory_.reads, 200U);
    EXPECT_EQ(walk(200).frames.size(), 200U);
    memory_.reads = 0;
    EXPECT_EQ(walk(200).frames.size(), 200U);
    EXPECT_EQ(memory_.reads, 1U) << "it remembers how far the last walk went";
}

// Whatever is on the stack, a walk ends. Rules of every kind, and a stack of random words, many of
// which are pcs or point into the stack.
TEST_F(Walk, HostileStacks) {
    std::uint64_t seed = 42;
    const auto random = [&seed](std::uint64_t n) { // xorshift64 (Marsaglia 2003)
        seed ^= seed << 13;
        seed ^= seed >> 7;
        seed ^= seed << 17;
        return seed % n;
    };
    for (unsigned round = 0; round < 2000; ++round) {
        walker_.forget();
        rules_.rules.clear();
        rules_.rows.clear();
        for (std::uint64_t pc = 0; pc < 16; ++pc) {
            for (const FrameAddress frame : {at(pc * 16 + 16), after_call(pc * 16 + 16)}) {
                Rule rule = Rule::of(static_cast<Rule::Kind>(random(7)));
                rule.cfa_base = static_cast<Rule::CfaBase>(random(3));
                rule.fp_place = static_cast<Rule::FpPlace>(random(3));
                rule.ra_place = static_cast<Rule::RaPlace>(random(2));
                rule.cfa_offset = static_cast<std::int32_t>(random(256)) - 64;
                rule.fp_offset = static_cast<std::int32_t>(random(64)) - 32;
                rule.ra_offset = -8;
                rules_.rules[frame] = rule;
                rules_.rows[frame] = sp_row(static_cast<std::int64_t>(random(64)));
                rules_.rows[frame].signal_frame = random(4) == 0;
                rules_.rows[frame].cfa_register = static_cast<unsigned>(random(40));
            }
        }
        for (std::uint64_t i = 0; i < 128; ++i) {
            const std::uint64_t words[] = {random(17) * 16, kSp + random(0x1000), random(1000),
                                           ~random(1000)};
            memory_.put(kSp + 8 * i, words[random(4)]);
        }
        arch::set_pc(regs_, CodeAddr(16 + random(16) * 16));
        test::set_frame_pointer(regs_, kSp + random(128) * 8);
        const UnwoundStack& result = walk(1000000);
        EXPECT_LT(result.frames.size(), 10000U);
        EXPECT_NE(result.end, StackEnd::limit);
    }
}

TEST(StackWindow, MovesWithOneRead) {
    constexpr std::uint64_t kOther = kSp + 0x1000000;
    test::FakeMemory memory;
    memory.make_readable(kSp, kSp + 0x4000);
    memory.make_readable(kOther, kOther + 0x4000);
    StackWindow window(memory);
    std::vector<std::byte> frame(2 * window.usual_size()); // as of a signal
    window.start(RemoteAddr(kSp));
    EXPECT_TRUE(window.stack_word(RemoteAddr(kOther)));
    EXPECT_TRUE(window.stack_word(RemoteAddr(kOther) + 8));
    EXPECT_EQ(memory.reads, 2U);
    EXPECT_TRUE(window.stack_bytes(RemoteAddr(kSp), frame));
    EXPECT_TRUE(window.stack_word(RemoteAddr(kSp + frame.size()))) << "the interrupted frame";
    EXPECT_EQ(memory.reads, 3U);
}

} // namespace
} // namespace memleax
