// SPDX-License-Identifier: GPL-3.0-or-later
// The first instructions of functions, out from under a jump: bytes in, bytes out.
#include <set>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "arch.hpp"
#include "instruction.hpp"

namespace memleax::arch::test {
namespace {

using Bytes = std::vector<std::uint8_t>;

constexpr CodeAddr kEntry(0x1000);
constexpr CodeAddr kSlot(0x11000);

Bytes followed(Bytes code) { // by the rest of a function
    code.resize(40, 0x90);
    return code;
}

std::string problem_of(const Bytes& code) {
    const auto moved = displace_entry(kEntry, followed(code), kSlot);
    return moved ? "" : moved.error().message();
}

TEST(DisplaceEntry, TakesWholeInstructions) {
    // glibc's malloc: push %r12; push %rbp; push %rbx; mov %rdi,%rbx
    const auto moved =
        displace_entry(kEntry, followed({0x41, 0x54, 0x55, 0x53, 0x48, 0x89, 0xfb}), kSlot);
    ASSERT_TRUE(moved);
    EXPECT_EQ(moved->original_length, 7);
    EXPECT_EQ(moved->code, (Bytes{0x41, 0x54, 0x55, 0x53, 0x48, 0x89, 0xfb, // the same
                                  0xe9, 0xfb, 0xff, 0xfe, 0xff}));          // jmp 1007
    std::vector<std::pair<int, std::uint64_t>> points;
    for (const SlotPoint& point : moved->points) {
        points.emplace_back(point.offset, point.original.value());
    }
    EXPECT_THAT(points, ::testing::ElementsAre(std::pair(0, 0x1000), std::pair(2, 0x1002),
                                               std::pair(3, 0x1003), std::pair(4, 0x1004),
                                               std::pair(7, 0x1007)));
}

TEST(DisplaceEntry, ABranchMayBeTheLast) {
    // glibc's free: test %rdi,%rdi; je 10c8
    const auto moved =
        displace_entry(kEntry, followed({0x48, 0x85, 0xff, 0x0f, 0x84, 0xbf, 0, 0, 0}), kSlot);
    ASSERT_TRUE(moved);
    EXPECT_EQ(moved->original_length, 9);
    EXPECT_EQ(moved->code, (Bytes{0x48, 0x85, 0xff, 0x74, 0x05,    // je 1100a
                                  0xe9, 0xff, 0xff, 0xfe, 0xff,    // jmp 1009
                                  0xe9, 0xb9, 0x00, 0xff, 0xff})); // jmp 10c8
}

TEST(DisplaceEntry, RelativeOperandsMeanTheSame) {
    // cmpb $0,0x141b46(%rip)
    const auto moved =
        displace_entry(kEntry, followed({0x80, 0x3d, 0x46, 0x1b, 0x14, 0, 0}), kSlot);
    ASSERT_TRUE(moved);
    EXPECT_EQ(moved->code, (Bytes{0x80, 0x3d, 0x46, 0x1b, 0x13, 0, 0, // 64 KiB nearer
                                  0xe9, 0xfb, 0xff, 0xfe, 0xff}));
}

TEST(DisplaceEntry, OneJumpIsEnough) {
    const auto moved = displace_entry(kEntry, followed({0xe9, 0, 1, 0, 0}), kSlot);
    ASSERT_TRUE(moved);
    EXPECT_EQ(moved->original_length, 5);
    EXPECT_EQ(moved->code, (Bytes{0xe9, 0, 1, 0xff, 0xff})); // jmp 1105
}

TEST(DisplaceEntry, RefusesWhatDoesNotFallThrough) {
    EXPECT_NE(problem_of({0x74, 0x10, 0x90, 0x90, 0x90}), ""); // je in the midst
    EXPECT_NE(problem_of({0x31, 0xc0, 0xc3}), "");             // xor %eax,%eax; ret
    EXPECT_NE(problem_of({0xe8, 0, 1, 0, 0}), "");             // call
    EXPECT_NE(problem_of({0x0f, 0x05, 0x90, 0x90, 0x90}), ""); // syscall
    EXPECT_EQ(problem_of({0xf3, 0x0f, 0x1e, 0xfa, 0x55}), ""); // endbr64; push %rbp
}

// In a slot there is no way back from behind the first instruction: the fault would be delivered
// there.
TEST(DisplaceEntry, RefusesFaultsBehindTheFirst) {
    const Bytes test_pointer{0x48, 0x85, 0xff};
    const auto behind_test = [&](const Bytes& second) {
        Bytes code = test_pointer;
        code.insert(code.end(), second.begin(), second.end());
        return problem_of(code);
    };
    EXPECT_EQ(behind_test({0x48, 0xc7, 0x47, 0xf8, 0, 0, 0, 0}), kFaultBehindFirst); // -8(%rdi)
    EXPECT_EQ(behind_test({0x48, 0x8b, 0x04, 0xf0}), kFaultBehindFirst);       // (%rax,%rsi,8)
    EXPECT_EQ(behind_test({0xa4}), kFaultBehindFirst);                         // movsb
    EXPECT_EQ(behind_test({0xff, 0x37}), kFaultBehindFirst);                   // push (%rdi)
    EXPECT_EQ(behind_test({0x48, 0x8d, 0x47, 0xf8}), "");                      // lea
    EXPECT_EQ(behind_test({0x0f, 0x1f, 0x40, 0}), "");                         // nopl 0(%rax)
    EXPECT_EQ(behind_test({0x48, 0x89, 0x44, 0x24, 0xf8}), "");                // -8(%rsp)
    EXPECT_EQ(behind_test({0x48, 0x89, 0x45, 0xf8}), "");                      // -8(%rbp)
    EXPECT_EQ(behind_test({0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}), ""); // %fs:0x28
    EXPECT_EQ(problem_of({0x48, 0xc7, 0x47, 0xf8, 0, 0, 0, 0}), "");           // the first may
}

TEST(EntryJump, BranchesIntoItAreFoundInAnyCode) {
    std::vector<CodeAddr> found;
    const auto look_at = [&found](const Bytes& code, CodeAddr from) {
        found.clear();
        for_each_branch_into({kEntry.value() + 1, kEntry.value() + 5}, from, code,
                             [&found](CodeAddr target) { found.push_back(target); });
        return found.size();
    };
    const CodeAddr from(0x2000);
    // At 2002 and 2001; each leads to 1004.
    EXPECT_EQ(look_at({0x90, 0x90, 0xe9, 0xfd, 0xef, 0xff, 0xff}, from), 1U); // jmp
    EXPECT_EQ(found.front(), kEntry + 4);
    EXPECT_EQ(look_at({0x90, 0x90, 0xe8, 0xfd, 0xef, 0xff, 0xff}, from), 1U);       // call
    EXPECT_EQ(look_at({0x90, 0x0f, 0x84, 0xfd, 0xef, 0xff, 0xff, 0x90}, from), 1U); // je
    EXPECT_EQ(look_at({0x90, 0x0e, 0x84, 0xfd, 0xef, 0xff, 0xff}, from), 0U);
    EXPECT_EQ(look_at({0x90, 0x90, 0xb8, 0xfd, 0xef, 0xff, 0xff}, from), 0U); // mov
    EXPECT_EQ(look_at({0x90, 0x90, 0xe9, 0xf9, 0xef, 0xff, 0xff}, from), 0U); // to the entry
    EXPECT_EQ(look_at({0x90, 0x90, 0xe9, 0xfe, 0xef, 0xff, 0xff}, from), 0U); // and behind it
    EXPECT_EQ(look_at({0x90, 0x90, 0xe9, 0xfd, 0xef, 0xff}, from), 0U);       // cut
    EXPECT_EQ(look_at({}, from), 0U);
}

TEST(EntryJump, IsRefusedWhereCodeLeadsBehindItsFirstByte) {
    // push %rbp; nop...; jmp 1001
    Bytes loop{0x55, 0x90, 0x90, 0x90, 0x90, 0x90, 0xeb, 0xf9};
    EXPECT_NE(reason_against_entry_jump(kEntry, loop), nullptr);
    loop[7] = 0xf8; // to the entry itself
    EXPECT_EQ(reason_against_entry_jump(kEntry, loop), nullptr);
    loop[7] = 0xfd; // and behind the jump
    EXPECT_EQ(reason_against_entry_jump(kEntry, loop), nullptr);
    EXPECT_NE(reason_against_entry_jump(kEntry, Bytes{0x90, 0x90, 0xc3}), nullptr); // short
}

TEST(EntryJump, ReachesTwoGibibytes) {
    const auto jump = entry_jump(kEntry, {}, CodeAddr(0x2000));
    ASSERT_TRUE(jump);
    EXPECT_THAT(*jump, ::testing::ElementsAre(0xe9, 0xfb, 0x0f, 0, 0));
    EXPECT_FALSE(entry_jump(kEntry, {}, kEntry + (1LL << 31) + 5));
    EXPECT_TRUE(entry_jump(kEntry, {}, kEntry + (1LL << 31) + 4));
}

TEST(Gate, LetsAllPassButSigtrap) {
    const auto code = gate_code(kEntry, kEntry + 0x1000);
    const Bytes begin(code.begin(), code.begin() + 10);
    EXPECT_EQ(begin, (Bytes{0x83, 0xff, 5,             // cmp $5,%edi
                            0x74, 5,                   // je 10
                            0xe9, 0xf6, 0x0f, 0, 0})); // jmp
    const Bytes trap(code.begin() + kThunkTrapAt, code.begin() + kThunkTrapAt + 6);
    EXPECT_EQ(kThunkTrapAt, 22U);
    EXPECT_EQ(trap, (Bytes{0x90, 0xe9, 0xe4, 0x0f, 0, 0}));
}

// Each branch leads to an instruction, and the answer's place and the handler's are where it says.
TEST(Gate, AnswersWhoAsks) {
    const auto code = gate_code(kEntry, kEntry + 0x1000);
    std::set<std::size_t> begins;
    std::set<CodeAddr> targets;
    std::set<CodeAddr> data;
    std::size_t at = 0;
    for (constexpr std::size_t kEnd = 98; at < kEnd;) {
        begins.insert(at);
        const CodeAddr place = kEntry + static_cast<std::int64_t>(at);
        const auto bytes = std::span(code).subspan(at);
        const auto instruction = decode_movable(place, bytes); // not the system call's
        if (instruction && instruction->flow == Flow::branch) {
            targets.insert(instruction->target);
        }
        if (instruction && instruction->rip_displacement_at) {
            data.insert(instruction->rip_operand);
        }
        const std::size_t length = instruction_length(place, bytes);
        ASSERT_NE(length, 0U) << at;
        at += length;
    }
    EXPECT_EQ(at, 98U);
    EXPECT_THAT(targets, ::testing::ElementsAre(kEntry + 10, kEntry + 22, kEntry + 28));
    for (const CodeAddr target : targets) {
        EXPECT_TRUE(begins.contains(target.value() - kEntry.value())) << target.value();
    }
    EXPECT_THAT(data, ::testing::ElementsAre(kEntry + 104, kEntry + 112));
    EXPECT_EQ(kGateAnswersAt, 104U);
    EXPECT_EQ(kGateHandlerAt, 112U);
    EXPECT_EQ(code[kGateAnswersAt], 0);
}

} // namespace
} // namespace memleax::arch::test
