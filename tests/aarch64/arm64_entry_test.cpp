// SPDX-License-Identifier: GPL-3.0-or-later
// arm64: functions that begin with a jump of ours, words in and words out. Each word was made by
// aarch64-linux-gnu-as for the place where it stands.
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "arch.hpp"
#include "words.hpp"

namespace memleax::arch {
inline namespace aarch64 {
namespace {

constexpr CodeAddr kEntry(0xaaaa00100000);
/// 0x10000 below.
constexpr CodeAddr kSlot(0xaaaa000f0000);

constexpr std::uint32_t kPush = 0xa9bc7bfd; // stp x29,x30,[sp,#-64]!
constexpr std::uint32_t kSetFramePointer = 0x910003fd;
constexpr std::uint32_t kReturn = 0xd65f03c0;

void expect_moved(const Words& in, const Words& out, const std::vector<SlotPoint>& points) {
    const auto displaced = displace_entry(kEntry, bytes_of(in), kSlot);
    ASSERT_TRUE(displaced.ok()) << displaced.error().message();
    EXPECT_EQ(hex(displaced->code), hex(bytes_of(out)));
    EXPECT_EQ(displaced->original_length, 8U);
    EXPECT_EQ(displaced->points, points);
}

std::string reason_against(const Words& code) {
    const auto displaced = displace_entry(kEntry, bytes_of(code), kSlot);
    return displaced ? "" : displaced.error().message();
}

TEST(Arm64Entry, TwoInstructionsMove) {
    // glibc's malloc
    expect_moved({kPush, kSetFramePointer}, {kPush, kSetFramePointer, 0x14004000},
                 {{0, kEntry, 0}, {4, kEntry + 4, 0}, {8, kEntry + 8, 0}});
}

TEST(Arm64Entry, ABranchMayBeTheFirst) {
    // glibc's free: cbz x0, 0x110 ahead
    expect_moved({0xb4000880, kPush},
                 {0xb4000040,         // cbz x0, to the jump away
                  0x14000002,         // b, past it
                  0x14004042,         // b, 0x110 behind the entry
                  kPush, 0x14003ffe}, // b, behind the two
                 {{0, kEntry, 0},
                  {4, kEntry + 4, 0},
                  {8, kEntry + 0x110, 0},
                  {12, kEntry + 4, 0},
                  {16, kEntry + 8, 0}});
}

TEST(Arm64Entry, ABranchMayBeTheLast) {
    expect_moved({kPush, 0xb4000880}, // cbz x0, 0x114 behind the entry
                 {kPush, 0xb4000040, 0x14004000, 0x14004042},
                 {{0, kEntry, 0}, {4, kEntry + 4, 0}, {8, kEntry + 8, 0}, {12, kEntry + 0x114, 0}});
}

TEST(Arm64Entry, AddressesMeanTheSame) {
    // glibc's aligned_alloc has adrp x2, 0x113 pages ahead; here twice, for two literals.
    expect_moved({0xf0000882, 0xf0000883},
                 {0x58000082, 0x580000a3, 0x14004000, 0, // ldr x2, ldr x3, b
                  0x00213000, 0xaaaa, 0x00213000, 0xaaaa},
                 {{0, kEntry, 0}, {4, kEntry + 4, 0}, {8, kEntry + 8, 0}});
}

TEST(Arm64Entry, CallsStay) {
    const std::string reason = "a jump, a call or a return is among its first instructions";
    EXPECT_EQ(reason_against({0x94000010, kPush}), reason); // bl
    EXPECT_EQ(reason_against({kPush, 0x94000010}), reason);
    EXPECT_EQ(reason_against({kPush, 0xd63f0020}), reason); // blr x1
    EXPECT_EQ(reason_against({0x14000010, kPush}), reason); // b
    EXPECT_EQ(reason_against({kReturn, kPush}), reason);
    EXPECT_EQ(reason_against({kPush, 0xd4000001}), "system call instruction");
    EXPECT_EQ(reason_against({kPush, 0xc85f7c20}), "exclusive access"); // ldxr x0,[x1]
    EXPECT_EQ(reason_against({kPush, kReturn}), "");
    EXPECT_EQ(reason_against({kPush, 0x14000010}), "");
}

// In a slot there is no way back from behind the first instruction: the fault would be delivered
// there.
TEST(Arm64Entry, FaultsBehindTheFirstStay) {
    EXPECT_EQ(reason_against({kPush, 0xf81f803f}), kFaultBehindFirst); // stur xzr,[x1,#-8]
    EXPECT_EQ(reason_against({kPush, 0xa9400c02}), kFaultBehindFirst); // ldp x2,x3,[x0]
    EXPECT_EQ(reason_against({0xf81f803f, kPush}), "");
    // adrp x16, then str x0,[x16]: a variable. By x1 it is none.
    EXPECT_EQ(reason_against({0xb0000010, 0xf9000200}), "");
    EXPECT_EQ(reason_against({0xb0000010, 0xf9000020}), kFaultBehindFirst);
    EXPECT_EQ(reason_against({kPush, 0xf9000be0}), ""); // str x0,[sp,#16]
    EXPECT_EQ(reason_against({kPush, 0xf90013a0}), ""); // str x0,[x29,#32]
    EXPECT_EQ(reason_against({0xd503233f, kPush}), ""); // paciasp
    EXPECT_EQ(reason_against({kPush, 0x58000040}), ""); // ldr x0, 8 ahead
    EXPECT_EQ(reason_against({kPush, 0x8b010000}), ""); // add x0,x0,x1
}

// FEAT_PAuth_LR; the words are the manual's.
TEST(Arm64Entry, WhatSignsWithItsOwnAddressStays) {
    const std::string reason = "it signs a return address with its own";
    EXPECT_EQ(reason_against({0xdac1a3fe, kPush}), reason);      // paciasppc
    EXPECT_EQ(reason_against({0xd50324ff, 0xd503233f}), reason); // pacm; paciasp
    EXPECT_EQ(reason_against({kPush, 0xf380003f}), reason);      // autiasppc
    EXPECT_EQ(reason_against({0xdac103fe, kPush}), "");          // pacia x30,sp
}

TEST(Arm64Entry, BranchesIntoItAreFoundInAnyCode) {
    std::vector<CodeAddr> found;
    for_each_branch_into(
        {kEntry.value() + 1, kEntry.value() + 8}, kEntry + 0x100,
        bytes_of({0x17ffffc1, 0x54fff800, 0x97ffffbf, kReturn, 0xb4fff7a0, 0x17ffffbb}),
        [&found](CodeAddr target) { found.push_back(target); });
    // b, b.eq, bl and cbz to the second word; the last b goes to the entry.
    EXPECT_EQ(found, (std::vector<CodeAddr>{kEntry + 4, kEntry + 4, kEntry + 4, kEntry + 4}));
}

TEST(Arm64Entry, NothingMayLeadToTheSecondInstruction) {
    EXPECT_STREQ(reason_against_entry_jump(kEntry, bytes_of({kPush, kReturn, 0x74c10040})),
                 "its code has a branch that is not known"); // cbgt x0,x1 of FEAT_CMPBR
    constexpr std::uint32_t kNop = 0xd503201f;
    EXPECT_STREQ(reason_against_entry_jump(kEntry, bytes_of({kPush})), "it is too short");
    EXPECT_EQ(reason_against_entry_jump(kEntry, bytes_of({kPush, kReturn})), nullptr);
    for (const std::uint32_t back : {0x17ffffffU, 0xb5ffffe0U, 0x54ffffe0U, 0x97ffffffU}) {
        EXPECT_STREQ(reason_against_entry_jump(kEntry, bytes_of({kPush, kNop, back})),
                     "there is a jump to the middle of its first bytes")
            << hex(bytes_of({back}));
        // One further back is the entry itself, one less far is the loop's own.
        EXPECT_EQ(reason_against_entry_jump(kEntry, bytes_of({kPush, back, kNop})), nullptr);
        EXPECT_EQ(reason_against_entry_jump(kEntry, bytes_of({kPush, kNop, kNop, back})), nullptr);
    }
}

TEST(Arm64Entry, TheJumpBeginsWithALandingPad) {
    const CodeAddr target = kEntry + 0x1000;
    const auto jump_of = [&](std::uint32_t first) {
        const auto jump = entry_jump(kEntry, bytes_of({first, kSetFramePointer}), target);
        return jump ? hex(*jump) : "";
    };
    EXPECT_EQ(jump_of(kPush), "d503245f 140003ff ");      // bti c; b
    EXPECT_EQ(jump_of(0xd503233f), "d503245f 140003ff "); // paciasp, which is one, too
    for (const std::uint32_t pad : {0xd503241fU, 0xd503245fU, 0xd503249fU, 0xd50324dfU}) {
        EXPECT_EQ(jump_of(pad), hex(bytes_of({pad, 0x140003ff})));
    }
}

TEST(Arm64Entry, TheJumpReaches128Mebibytes) {
    constexpr std::int64_t kReach = 1 << 27;
    const auto code = bytes_of({kPush, kSetFramePointer});
    EXPECT_TRUE(entry_jump(kEntry, code, kEntry + 4 + kReach - 4));
    EXPECT_FALSE(entry_jump(kEntry, code, kEntry + 4 + kReach));
    EXPECT_TRUE(entry_jump(kEntry, code, kEntry + 4 - kReach));
    EXPECT_FALSE(entry_jump(kEntry, code, kEntry - kReach));
    const auto plain = plain_jump(kEntry, kEntry + 0x1000);
    ASSERT_TRUE(plain);
    EXPECT_EQ(hex(*plain), "14000400 00000000 ");
    EXPECT_FALSE(plain_jump(kEntry, kEntry + kReach));
}

TEST(Arm64Entry, TheThunk) {
    const auto code = thunk_code(kEntry, kEntry - 0x1000, kSlot);
    EXPECT_EQ(hex(code), hex(bytes_of({
                             0x10000150, // adr x16, 40 ahead
                             0x17fffbff, // b, to the stub
                             0xd503201f, // nop
                             0x58000071, // ldr x17, =kSlot
                             0xd61f0220, // br x17
                             0,
                             0x000f0000,
                             0xaaaa,
                             0,
                             0,
                         })));
    EXPECT_EQ(kThunkTrapAt, 8U);
    EXPECT_EQ(kThunkPassExitAt, 12U);
}

// As GNU as 2.40 makes it.
TEST(Arm64Entry, TheGate) {
    EXPECT_EQ(hex(gate_code(kEntry, kSlot)), hex(bytes_of({
                                                 0x14000005, // b 20
                                                 0,
                                                 0xd503201f, // 8: nop
                                                 0x58000371, // 12: ldr x17, =kSlot
                                                 0xd61f0220, // br x17
                                                 0x7100141f, // 20: cmp w0, #5
                                                 0x54ffffa1, // b.ne 12
                                                 0xb5ffff61, // cbnz x1, 8
                                                 0xb4ffff62, // cbz x2, 12
                                                 0x18000230, // ldr w16, 104
                                                 0x34ffff10, // cbz w16, 8
                                                 0xa9414450, // ldp x16, x17, [x2, #16]
                                                 0xd2800103, // mov x3, #8
                                                 0xd28010c8, // mov x8, #134
                                                 0xd4000001, // svc #0
                                                 0xa9014450, // stp x16, x17, [x2, #16]
                                                 0xb5000100, // cbnz x0, 96
                                                 0x58000170, // ldr x16, 112
                                                 0xf9400051, // ldr x17, [x2]
                                                 0xeb11021f, // cmp x16, x17
                                                 0x54000081, // b.ne 96
                                                 0xa9007c5f, // stp xzr, xzr, [x2]
                                                 0xb900885f, // str wzr, [x2, #136]
                                                 0xd65f03c0, // ret
                                                 0x528000a0, // 96: mov w0, #5
                                                 0x17ffffe9, // b 8
                                                 0,          // 104
                                                 0,
                                                 0, // 112
                                                 0,
                                                 0x000f0000, // 120: kSlot
                                                 0xaaaa,
                                             })));
    EXPECT_EQ(kGateAnswersAt, 104U);
    EXPECT_EQ(kGateHandlerAt, 112U);
}

} // namespace
} // namespace aarch64
} // namespace memleax::arch
