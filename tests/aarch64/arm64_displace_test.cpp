// SPDX-License-Identifier: GPL-3.0-or-later
// arm64: displaced instructions, words in and words out. Each word was made by aarch64-linux-gnu-as
// for the place where it stands.
#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "arch.hpp"
#include "words.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

using Points = std::vector<SlotPoint>;

constexpr CodeAddr kFrom(0xaaaa00100000);
constexpr CodeAddr kNext(0xaaaa00100004);
/// 0x10000 below.
constexpr CodeAddr kSlot(0xaaaa000f0000);
/// 96 MiB below: no literal load and no conditional branch reaches back.
constexpr CodeAddr kFarSlot(0xaaa9fa100000);

void expect_moved(std::uint32_t word, const Words& out, const Points& points,
                  CodeAddr slot = kSlot) {
    const auto displaced = displace(kFrom, bytes_of({word}), slot);
    ASSERT_TRUE(displaced.ok()) << fmt::format("{:08x}: ", word) << displaced.error().message();
    EXPECT_EQ(hex(displaced->code), hex(bytes_of(out))) << fmt::format("from {:08x}", word);
    EXPECT_EQ(displaced->original_length, 4U);
    EXPECT_EQ(displaced->points, points) << fmt::format("from {:08x}", word);
}

void expect_refused(std::uint32_t word, const std::string& reason, CodeAddr slot = kSlot) {
    const auto displaced = displace(kFrom, bytes_of({word}), slot);
    ASSERT_FALSE(displaced.ok()) << fmt::format("{:08x}", word);
    EXPECT_EQ(displaced.error().message(), reason) << fmt::format("{:08x}", word);
}

TEST(Arm64Displace, PositionIndependent) {
    const Points points{{0, kFrom, 0}, {4, kNext, 0}};
    for (const std::uint32_t word : {
             0xd503245fU, // bti c
             0xd503233fU, // paciasp
             0xd503237fU, // pacibsp
             0xd50323bfU, // autiasp
             0xa9bd7bfdU, // stp x29,x30,[sp,#-48]!
             0xa8c37bfdU, // ldp x29,x30,[sp],#48
             0xd10043ffU, // sub sp,sp,#16
             0x910003fdU, // mov x29,sp
             0xd53bd041U, // mrs x1,tpidr_el0
             0xf9400000U, // ldr x0,[x0]
             0xc8dffc20U, // ldar x0,[x1]
             0xc89ffc20U, // stlr x0,[x1]
             0xc8a07c41U, // cas x0,x1,[x2]
             0x48207c82U, // casp x0,x1,x2,x3,[x4]
             0xf8200041U, // ldadd x0,x1,[x2]
             0x4ea01c00U, // mov v0.16b,v0.16b
             0x04225020U, // addvl x0,x2,#1 (SVE)
         }) {
        // b next, 4 behind the slot's begin: 0x10000 ahead
        expect_moved(word, {word, 0x14004000}, points);
    }
    expect_moved(0xa9bd7bfd, {0xa9bd7bfd, 0x15800000}, points, kFarSlot);
}

TEST(Arm64Displace, Branch) {
    expect_moved(0x14000004, {0x14004004}, {{0, kFrom, 0}}); // b +16
    expect_moved(0x17fffffc, {0x14003ffc}, {{0, kFrom, 0}}); // b -16
    // b -96 MiB, from 96 MiB above
    expect_refused(0x16800000, "branch out of reach", CodeAddr(0xaaaa06100000));
}

TEST(Arm64Displace, ConditionalBranch) {
    const Points points{{0, kFrom, 0}, {4, kNext, 0}, {8, kFrom + 32, 0}};
    // b next from +4: 0x10000; b target from +8: 0x10018
    const auto both = [&](std::uint32_t word, std::uint32_t moved) {
        expect_moved(word, {moved, 0x14004000, 0x14004006}, points);
    };
    both(0x54000100, 0x54000040); // b.eq +32
    both(0x5400010d, 0x5400004d); // b.le
    both(0x34000100, 0x34000040); // cbz w0
    both(0xb4000101, 0xb4000041); // cbz x1
    both(0x35000102, 0x35000042); // cbnz w2
    both(0xb5000103, 0xb5000043); // cbnz x3
    both(0x36280104, 0x36280044); // tbz w4,#5
    both(0xb7f80105, 0xb7f80045); // tbnz x5,#63
    // cbz x0,-8; tbz w0,#0,-8: backwards, from far below
    const Points backwards{{0, kFrom, 0}, {4, kNext, 0}, {8, kFrom - 8, 0}};
    expect_moved(0xb4ffffc0, {0xb4000040, 0x15800000, 0x157ffffc}, backwards, kFarSlot);
    expect_moved(0x3607ffc0, {0x36000040, 0x15800000, 0x157ffffc}, backwards, kFarSlot);
}

TEST(Arm64Displace, CallLeavesTheOriginalReturnAddress) {
    // bl +256: ldr x30,=next; b target
    expect_moved(0x94000040, {0x5800005e, 0x1400403f, 0x00100004, 0x0000aaaa},
                 {{0, kFrom, 0}, {4, kFrom + 256, 0}});
}

TEST(Arm64Displace, IndirectCall) {
    const Points points{{0, kFrom, 0}, {4, kFrom, 0}};
    const auto becomes = [&](std::uint32_t call, std::uint32_t jump) {
        expect_moved(call, {0x5800005e, jump, 0x00100004, 0x0000aaaa}, points);
    };
    becomes(0xd63f0000, 0xd61f0000);                // blr x0 -> br x0
    becomes(0xd63f0220, 0xd61f0220);                // blr x17
    becomes(0xd63f081f, 0xd61f081f);                // blraaz x0 -> braaz x0
    becomes(0xd73f0801, 0xd71f0801);                // blraa x0,x1 -> braa x0,x1
    expect_refused(0xd63f03c0, "call through x30"); // blr x30
    expect_refused(0xd73f081e, "call through x30"); // blraa x0,x30
}

TEST(Arm64Displace, NoWayBackAfterReturnAndIndirectBranch) {
    const Points only_start{{0, kFrom, 0}};
    for (const std::uint32_t word : {
             0xd65f03c0U, // ret
             0xd65f0bffU, // retaa
             0xd61f0200U, // br x16
             0xd71f0801U, // braa x0,x1
         }) {
        expect_moved(word, {word}, only_start, kFarSlot);
    }
}

TEST(Arm64Displace, AddressesAreLoaded) {
    const Points points{{0, kFrom, 0}, {4, kNext, 0}};
    // adr x0,+20: ldr x0,=...100014; b next
    expect_moved(0x100000a0, {0x58000040, 0x14004000, 0x00100014, 0x0000aaaa}, points);
    // adr x1,-1
    expect_moved(0x70ffffe1, {0x58000041, 0x14004000, 0x000fffff, 0x0000aaaa}, points);
    // adrp x3,+0x12345000, from afar
    expect_moved(0xb0091a23, {0x58000043, 0x15800000, 0x12445000, 0x0000aaaa}, points, kFarSlot);
    // adrp x30,-0x1000
    expect_moved(0xf0fffffe, {0x5800005e, 0x14004000, 0x000ff000, 0x0000aaaa}, points);
}

TEST(Arm64Displace, LiteralLoads) {
    const Points points{{0, kFrom, 0}, {4, kFrom, 0}, {8, kNext, 0}};
    // =...100100 is 16 bytes behind the load, as the code has three words
    const auto becomes = [&](std::uint32_t literal, std::uint32_t address, std::uint32_t load) {
        expect_moved(literal, {address, load, 0x14003fff, 0, 0x00100100, 0x0000aaaa}, points);
    };
    becomes(0x58000800, 0x58000080, 0xf9400000);             // ldr x0,+256 -> ldr x0,=; ldr x0,[x0]
    becomes(0x18000801, 0x58000081, 0xb9400021);             // ldr w1
    becomes(0x98000802, 0x58000082, 0xb9800042);             // ldrsw x2
    becomes(0x1c000803, 0x58000091, 0xbd400223);             // ldr s3 -> ldr x17,=; ldr s3,[x17]
    becomes(0x5c000804, 0x58000091, 0xfd400224);             // ldr d4
    becomes(0x9c000805, 0x58000091, 0x3dc00225);             // ldr q5
    becomes(0x5800081f, 0x58000091, 0xf940023f);             // ldr xzr -> ldr x17,=; ldr xzr,[x17]
    expect_moved(0xd8000800, {0x14004001}, {{0, kFrom, 0}}); // prfm pldl1keep,+256: b next
}

TEST(Arm64Displace, Refused) {
    expect_refused(0xd4000001, "system call instruction"); // svc #0
    expect_refused(0xd4200000, "breakpoint or halt");      // brk #0
    expect_refused(0x00000000, "unknown instruction");     // udf #0
    expect_refused(0x74000040, "unknown instruction");     // cbgt w0,w0,.+8 (FEAT_CMPBR)
    expect_refused(0xd69f03e0, "unknown instruction");     // eret
    expect_refused(0xdc000000, "unknown instruction");     // unallocated literal load
    expect_refused(0xa9bd7bfd, "branch out of reach", CodeAddr(0xaaaa10000000));
    EXPECT_FALSE(displace(kFrom, std::array<std::uint8_t, 3>{0x1f, 0x20, 0x03}, kSlot).ok());
}

// Between a load-exclusive and its store no exception may come, or the store fails for ever.
TEST(Arm64Displace, NoBreakpointInAnExclusiveAccess) {
    for (const std::uint32_t word : {
             0xc85f7c01U, // ldxr x1,[x0]
             0xc85ffc01U, // ldaxr x1,[x0]
             0xc8027c01U, // stxr w2,x1,[x0]
             0xc802fc01U, // stlxr w2,x1,[x0]
             0x085f7c01U, // ldxrb w1,[x0]
             0x48027c01U, // stxrh w2,w1,[x0]
             0xc87f0801U, // ldxp x1,x2,[x0]
             0xc8238801U, // stlxp w3,x1,x2,[x0]
             0x887f0801U, // ldxp w1,w2,[x0]
         }) {
        EXPECT_NE(reason_against_breakpoint(bytes_of({word})), nullptr) << std::hex << word;
        expect_refused(word, "exclusive access");
    }
    for (const std::uint32_t word : {0xc8dffc20U, 0xc89ffc20U, 0xc8a07c41U, 0x48207c82U,
                                     0xa9bd7bfdU, 0xf8200041U, 0xd503233fU}) {
        EXPECT_EQ(reason_against_breakpoint(bytes_of({word})), nullptr) << std::hex << word;
    }
}

} // namespace
} // namespace aarch64
} // namespace memleax::arch
