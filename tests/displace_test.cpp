// SPDX-License-Identifier: GPL-3.0-or-later
// Displaced instructions, bytes in and bytes out. What they do when executed is tested in
// displace_execution_test.cpp; that all code of real programs can be moved in
// displace_sweep_test.cpp.
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "arch.hpp"

namespace memleax::arch {

void PrintTo(const SlotPoint& point, std::ostream* out) {
    *out << fmt::format("{{{}, {:#x}, {}}}", point.offset, point.original.value(), point.sp_adjust);
}
bool operator==(const SlotPoint& a, const SlotPoint& b) {
    return a.offset == b.offset && a.original == b.original && a.sp_adjust == b.sp_adjust;
}

namespace {

using Bytes = std::vector<std::uint8_t>;
using Points = std::vector<SlotPoint>;

constexpr CodeAddr kFrom(0x7f0000001000);
/// 0x10000 further on: within reach of everything that is within reach of kFrom.
constexpr CodeAddr kSlot(0x7f0000011000);
/// No rel32 leads back from here.
constexpr CodeAddr kFarSlot(0x7f1000000000);

std::string hex(const Bytes& bytes) {
    std::string text;
    for (const std::uint8_t byte : bytes) {
        text += fmt::format("{:02x} ", byte);
    }
    return text;
}

void expect_moved(const Bytes& in, CodeAddr slot, const Bytes& out, const Points& points,
                  CodeAddr from = kFrom) {
    // What follows it must not matter.
    Bytes code = in;
    code.resize(std::max(code.size(), kMaxInstructionBytes), 0x90);
    const auto displaced = displace(from, code, slot);
    ASSERT_TRUE(displaced.ok()) << hex(in) << displaced.error().message();
    EXPECT_EQ(hex(displaced->code), hex(out)) << "from " << hex(in);
    EXPECT_EQ(displaced->original_length, in.size()) << hex(in);
    EXPECT_EQ(displaced->points, points) << "from " << hex(in);
}

void expect_refused(const Bytes& in, const std::string& reason, CodeAddr slot = kSlot) {
    const auto displaced = displace(kFrom, in, slot);
    ASSERT_FALSE(displaced.ok()) << hex(in);
    EXPECT_EQ(displaced.error().message(), reason) << hex(in);
}

TEST(Displace, PositionIndependent) {
    // push %rbp
    expect_moved({0x55}, kSlot,
                 {0x55,                          // push %rbp
                  0xe9, 0xfb, 0xff, 0xfe, 0xff}, // jmp 1001
                 {{0, kFrom, 0}, {1, kFrom + 1, 0}});
    // endbr64
    expect_moved({0xf3, 0x0f, 0x1e, 0xfa}, kSlot,
                 {0xf3, 0x0f, 0x1e, 0xfa,        // endbr64
                  0xe9, 0xfb, 0xff, 0xfe, 0xff}, // jmp 1004
                 {{0, kFrom, 0}, {4, kFrom + 4, 0}});
    // cs nopw 0x0(%rax,%rax,1)
    expect_moved({0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, kSlot,
                 {0x66, 0x2e, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0, // cs nopw 0x0(%rax,%rax,1)
                  0xe9, 0xfb, 0xff, 0xfe, 0xff},               // jmp 100a
                 {{0, kFrom, 0}, {10, kFrom + 10, 0}});
    // mov %fs:0x28,%rax
    expect_moved({0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0}, kSlot,
                 {0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, // mov %fs:0x28,%rax
                  0xe9, 0xfb, 0xff, 0xfe, 0xff},               // jmp 1009
                 {{0, kFrom, 0}, {9, kFrom + 9, 0}});
    // rdsspq %rax, which capstone 4 does not know
    expect_moved({0xf3, 0x48, 0x0f, 0x1e, 0xc8}, kSlot,
                 {0xf3, 0x48, 0x0f, 0x1e, 0xc8,  // rdsspq %rax
                  0xe9, 0xfb, 0xff, 0xfe, 0xff}, // jmp 1005
                 {{0, kFrom, 0}, {5, kFrom + 5, 0}});
}

TEST(Displace, FarSlotJumpsThroughMemory) {
    expect_moved({0x48, 0x89, 0xe5}, kFarSlot, // mov %rsp,%rbp
                 {0x48, 0x89, 0xe5,            // mov %rsp,%rbp
                  0xff, 0x25, 0, 0, 0, 0,      // jmp *0(%rip)
                  0x03, 0x10, 0, 0, 0, 0x7f, 0, 0},
                 {{0, kFrom, 0}, {3, kFrom + 3, 0}});
}

TEST(Displace, RipRelative) {
    // mov 0x20000(%rip),%rax  # 21007
    expect_moved({0x48, 0x8b, 0x05, 0, 0, 2, 0}, kSlot,
                 {0x48, 0x8b, 0x05, 0, 0, 1, 0,  // mov 0x10000(%rip),%rax  # 21007
                  0xe9, 0xfb, 0xff, 0xfe, 0xff}, // jmp 1007
                 {{0, kFrom, 0}, {7, kFrom + 7, 0}});
    // cmpw $0x1234,0x20000(%rip): an immediate follows, and the prefix misleads capstone
    expect_moved({0x66, 0x81, 0x3d, 0, 0, 2, 0, 0x34, 0x12}, kSlot,
                 {0x66, 0x81, 0x3d, 0, 0, 1, 0, 0x34, 0x12, // cmpw $0x1234,0x10000(%rip)
                  0xe9, 0xfb, 0xff, 0xfe, 0xff},            // jmp 1009
                 {{0, kFrom, 0}, {9, kFrom + 9, 0}});
    // movl $0x5060708,-0x10(%rip)
    expect_moved({0xc7, 0x05, 0xf0, 0xff, 0xff, 0xff, 8, 7, 6, 5}, kSlot,
                 {0xc7, 0x05, 0xf0, 0xff, 0xfe, 0xff, 8, 7, 6, 5, // movl $..,-0x10010(%rip)
                  0xe9, 0xfb, 0xff, 0xfe, 0xff},                  // jmp 100a
                 {{0, kFrom, 0}, {10, kFrom + 10, 0}});
    // vmovdqa 0x20000(%rip),%xmm0
    expect_moved({0xc5, 0xf9, 0x6f, 0x05, 0, 0, 2, 0}, kSlot,
                 {0xc5, 0xf9, 0x6f, 0x05, 0, 0, 1, 0, // vmovdqa 0x10000(%rip),%xmm0
                  0xe9, 0xfb, 0xff, 0xfe, 0xff},      // jmp 1008
                 {{0, kFrom, 0}, {8, kFrom + 8, 0}});
    // vmovups 0x20000(%rip),%zmm0
    expect_moved({0x62, 0xf1, 0x7c, 0x48, 0x10, 0x05, 0, 0, 2, 0}, kSlot,
                 {0x62, 0xf1, 0x7c, 0x48, 0x10, 0x05, 0, 0, 1, 0, // vmovups 0x10000(%rip),%zmm0
                  0xe9, 0xfb, 0xff, 0xfe, 0xff},                  // jmp 100a
                 {{0, kFrom, 0}, {10, kFrom + 10, 0}});
    // data16 lea 0x20000(%rip),%rdi, as in the general dynamic model of thread-local storage
    expect_moved({0x66, 0x48, 0x8d, 0x3d, 0, 0, 2, 0}, kSlot,
                 {0x66, 0x48, 0x8d, 0x3d, 0, 0, 1, 0, // data16 lea 0x10000(%rip),%rdi
                  0xe9, 0xfb, 0xff, 0xfe, 0xff},      // jmp 1008
                 {{0, kFrom, 0}, {8, kFrom + 8, 0}});
}

TEST(Displace, RipRelativeOutOfReach) {
    // mov 0x7fffffff(%rip),%eax: out of reach from a slot that is further down, not further up
    const Bytes load{0x8b, 0x05, 0xff, 0xff, 0xff, 0x7f};
    expect_refused(load, "operand out of reach", kFrom - 0x10000);
    expect_moved(load, kSlot,
                 {0x8b, 0x05, 0xff, 0xff, 0xfe, 0x7f, // mov 0x7ffeffff(%rip),%eax
                  0xe9, 0xfb, 0xff, 0xfe, 0xff},      // jmp 1006
                 {{0, kFrom, 0}, {6, kFrom + 6, 0}});
    expect_refused(load, "operand out of reach", kFarSlot);
    // call *0x100(%rip)
    expect_refused({0xff, 0x15, 0, 1, 0, 0}, "operand out of reach", kFarSlot);
}

TEST(Displace, Jump) {
    // jmp 1012; jmp 1105; bnd jmp 1106
    expect_moved({0xeb, 0x10}, kSlot, {0xe9, 0x0d, 0, 0xff, 0xff}, {{0, kFrom, 0}});
    expect_moved({0xe9, 0, 1, 0, 0}, kSlot, {0xe9, 0, 1, 0xff, 0xff}, {{0, kFrom, 0}});
    expect_moved({0xf2, 0xe9, 0, 1, 0, 0}, kSlot, {0xe9, 1, 1, 0xff, 0xff}, {{0, kFrom, 0}});
    // jmp to itself: to the original, where it may be watched
    expect_moved({0xeb, 0xfe}, kSlot, {0xe9, 0xfb, 0xff, 0xfe, 0xff}, {{0, kFrom, 0}});
    // jmp 1012, from afar
    expect_moved({0xeb, 0x10}, kFarSlot,
                 {0xff, 0x25, 0, 0, 0, 0, // jmp *0(%rip)
                  0x12, 0x10, 0, 0, 0, 0x7f, 0, 0},
                 {{0, kFrom, 0}});
}

TEST(Displace, ConditionalJump) {
    // je 1012
    const Points points{{0, kFrom, 0}, {2, kFrom + 2, 0}, {7, kFrom + 0x12, 0}};
    expect_moved({0x74, 0x10}, kSlot,
                 {0x74, 0x05,                    // je 11007
                  0xe9, 0xfb, 0xff, 0xfe, 0xff,  // jmp 1002
                  0xe9, 0x06, 0x00, 0xff, 0xff}, // jmp 1012
                 points);
    // jg 1106
    expect_moved({0x0f, 0x8f, 0, 1, 0, 0}, kSlot,
                 {0x7f, 0x05,                    // jg 11007
                  0xe9, 0xff, 0xff, 0xfe, 0xff,  // jmp 1006
                  0xe9, 0xfa, 0x00, 0xff, 0xff}, // jmp 1106
                 {{0, kFrom, 0}, {2, kFrom + 6, 0}, {7, kFrom + 0x106, 0}});
    // bnd je 1013
    expect_moved({0xf2, 0x74, 0x10}, kSlot,
                 {0x74, 0x05,                    // je 11007
                  0xe9, 0xfc, 0xff, 0xfe, 0xff,  // jmp 1003
                  0xe9, 0x07, 0x00, 0xff, 0xff}, // jmp 1013
                 {{0, kFrom, 0}, {2, kFrom + 3, 0}, {7, kFrom + 0x13, 0}});
    // je 1012, from afar
    expect_moved({0x74, 0x10}, kFarSlot,
                 {0x74, 0x0e,                                              // je 1000000010
                  0xff, 0x25, 0, 0, 0, 0,                                  // jmp *0(%rip)
                  0x02, 0x10, 0, 0, 0, 0x7f, 0, 0, 0xff, 0x25, 0, 0, 0, 0, // jmp *0(%rip)
                  0x12, 0x10, 0, 0, 0, 0x7f, 0, 0},
                 {{0, kFrom, 0}, {2, kFrom + 2, 0}, {16, kFrom + 0x12, 0}});
}

TEST(Displace, CounterJump) {
    for (const std::uint8_t opcode : {0xe0, 0xe1, 0xe2, 0xe3}) { // loopne, loope, loop, jrcxz
        expect_moved({opcode, 0xf0}, kSlot,                      // .. ff2
                     {opcode, 0x05,                              // .. 11007
                      0xe9, 0xfb, 0xff, 0xfe, 0xff,              // jmp 1002
                      0xe9, 0xe6, 0xff, 0xfe, 0xff},             // jmp ff2
                     {{0, kFrom, 0}, {2, kFrom + 2, 0}, {7, kFrom - 14, 0}});
    }
    // jecxz ff3
    expect_moved({0x67, 0xe3, 0xf0}, kSlot,
                 {0x67, 0xe3, 0x05,              // jecxz 11008
                  0xe9, 0xfb, 0xff, 0xfe, 0xff,  // jmp 1003
                  0xe9, 0xe6, 0xff, 0xfe, 0xff}, // jmp ff3
                 {{0, kFrom, 0}, {3, kFrom + 3, 0}, {8, kFrom - 13, 0}});
}

TEST(Displace, CallPushesTheOriginalReturnAddress) {
    // call 1105
    expect_moved({0xe8, 0, 1, 0, 0}, kSlot,
                 {0x68, 0x05, 0x10, 0x00, 0x00,          // push $0x1005
                  0xc7, 0x44, 0x24, 0x04, 0, 0x7f, 0, 0, // movl $0x7f00,4(%rsp)
                  0xe9, 0xf3, 0x00, 0xff, 0xff},         // jmp 1105
                 {{0, kFrom, 0}, {5, kFrom, 8}, {13, kFrom + 0x105, 0}});
    // data16 data16 rex.W call 1108
    expect_moved({0x66, 0x66, 0x48, 0xe8, 0, 1, 0, 0}, kSlot,
                 {0x68, 0x08, 0x10, 0x00, 0x00,          // push $0x1008
                  0xc7, 0x44, 0x24, 0x04, 0, 0x7f, 0, 0, // movl $0x7f00,4(%rsp)
                  0xe9, 0xf6, 0x00, 0xff, 0xff},         // jmp 1108
                 {{0, kFrom, 0}, {5, kFrom, 8}, {13, kFrom + 0x108, 0}});
    // call 401105, in a program that is linked at a fixed address: the word is pushed whole
    expect_moved({0xe8, 0, 1, 0, 0}, CodeAddr(0x500000),
                 {0x68, 0x05, 0x10, 0x40, 0x00,  // push $0x401005
                  0xe9, 0xfb, 0x10, 0xf0, 0xff}, // jmp 401105
                 {{0, CodeAddr(0x401000), 0}, {5, CodeAddr(0x401105), 0}}, CodeAddr(0x401000));
    // call 80001105: the pushed word is sign-extended, which must be mended
    expect_moved(
        {0xe8, 0, 1, 0, 0}, CodeAddr(0x80100000),
        {0x68, 0x05, 0x10, 0x00, 0x80,       // push $0xffffffff80001005
         0xc7, 0x44, 0x24, 0x04, 0, 0, 0, 0, // movl $0,4(%rsp)
         0xe9, 0xf3, 0x10, 0xf0, 0xff},      // jmp 80001105
        {{0, CodeAddr(0x80001000), 0}, {5, CodeAddr(0x80001000), 8}, {13, CodeAddr(0x80001105), 0}},
        CodeAddr(0x80001000));
    // call 1105, from afar
    expect_moved({0xe8, 0, 1, 0, 0}, kFarSlot,
                 {0x68, 0x05, 0x10, 0x00, 0x00,             // push $0x1005
                  0xc7, 0x44, 0x24, 0x04, 0,    0x7f, 0, 0, // movl $0x7f00,4(%rsp)
                  0xff, 0x25, 0,    0,    0,    0,          // jmp *0(%rip)
                  0x05, 0x11, 0,    0,    0,    0x7f, 0, 0},
                 {{0, kFrom, 0}, {5, kFrom, 8}, {13, kFrom + 0x105, 0}});
}

/// The slot of an indirect call of this length, which becomes `jump`.
void expect_call_becomes(const Bytes& call, const Bytes& jump) {
    const auto next = static_cast<std::uint8_t>(call.size());
    Bytes out{0x68, next, 0x10, 0x00, 0x00,              // push $next
              0xc7, 0x44, 0x24, 0x04, 0,    0x7f, 0, 0}; // movl $0x7f00,4(%rsp)
    out.insert(out.end(), jump.begin(), jump.end());
    expect_moved(call, kSlot, out, {{0, kFrom, 0}, {5, kFrom, 8}, {13, kFrom, 8}});
}

TEST(Displace, IndirectCall) {
    expect_call_becomes({0xff, 0xd0}, {0xff, 0xe0});                         // call *%rax
    expect_call_becomes({0x41, 0xff, 0xd4}, {0x41, 0xff, 0xe4});             // call *%r12
    expect_call_becomes({0x3e, 0xff, 0xd2}, {0x3e, 0xff, 0xe2});             // notrack call *%rdx
    expect_call_becomes({0xff, 0x50, 0x18}, {0xff, 0x60, 0x18});             // call *0x18(%rax)
    expect_call_becomes({0xff, 0x14, 0xc7}, {0xff, 0x24, 0xc7});             // call *(%rdi,%rax,8)
    expect_call_becomes({0x41, 0xff, 0x14, 0x24}, {0x41, 0xff, 0x24, 0x24}); // call *(%r12)
    // call *%gs:0x10
    expect_call_becomes({0x65, 0xff, 0x14, 0x25, 0x10, 0, 0, 0},
                        {0x65, 0xff, 0x24, 0x25, 0x10, 0, 0, 0});
    // call *0x20000(%rip)  # 21006 -> jmp *0xfff3(%rip), 13 bytes into the slot
    expect_call_becomes({0xff, 0x15, 0, 0, 2, 0}, {0xff, 0x25, 0xf3, 0xff, 0, 0});
}

TEST(Displace, IndirectCallThroughTheStack) {
    expect_call_becomes({0xff, 0x14, 0x24}, {0xff, 0x64, 0x24, 0x08});       // call *(%rsp)
    expect_call_becomes({0xff, 0x54, 0x24, 0x10}, {0xff, 0x64, 0x24, 0x18}); // call *0x10(%rsp)
    // call *0x78(%rsp): the sum needs four bytes
    expect_call_becomes({0xff, 0x54, 0x24, 0x78}, {0xff, 0xa4, 0x24, 0x80, 0, 0, 0});
    // call *0x100(%rsp)
    expect_call_becomes({0xff, 0x94, 0x24, 0, 1, 0, 0}, {0xff, 0xa4, 0x24, 8, 1, 0, 0});
    expect_call_becomes({0xff, 0x54, 0xc4, 0x10},
                        {0xff, 0x64, 0xc4, 0x18}); // call *0x10(%rsp,%rax,8)
    // call *-8(%rsp): where the return address goes
    expect_refused({0xff, 0x54, 0x24, 0xf8}, "call through memory below the stack pointer");
    expect_refused({0xff, 0xd4}, "call through the stack pointer"); // call *%rsp
}

TEST(Displace, NoWayBackAfterReturnAndIndirectJump) {
    const Points only_start{{0, kFrom, 0}};
    expect_moved({0xc3}, kSlot, {0xc3}, only_start);                         // ret
    expect_moved({0xf3, 0xc3}, kSlot, {0xf3, 0xc3}, only_start);             // rep ret
    expect_moved({0xc2, 0x10, 0}, kSlot, {0xc2, 0x10, 0}, only_start);       // ret $0x10
    expect_moved({0xff, 0xe0}, kFarSlot, {0xff, 0xe0}, only_start);          // jmp *%rax
    expect_moved({0x3e, 0xff, 0xe0}, kSlot, {0x3e, 0xff, 0xe0}, only_start); // notrack jmp *%rax
    // bnd jmp *0x20000(%rip), a PLT entry
    expect_moved({0xf2, 0xff, 0x25, 0, 0, 2, 0}, kSlot, {0xf2, 0xff, 0x25, 0, 0, 1, 0}, only_start);
}

TEST(Displace, Refused) {
    expect_refused({0x0f, 0x05}, "system call instruction");                   // syscall
    expect_refused({0x0f, 0x34}, "system call instruction");                   // sysenter
    expect_refused({0xcc}, "software interrupt");                              // int3
    expect_refused({0xcd, 0x80}, "software interrupt");                        // int $0x80
    expect_refused({0xf1}, "software interrupt");                              // int1
    expect_refused({0x0f, 0x0b}, "undefined instruction");                     // ud2
    expect_refused({0xc7, 0xf8, 0, 0, 0, 0}, "xbegin");                        // xbegin 1006
    expect_refused({0xcb}, "far return");                                      // lret
    expect_refused({0x48, 0xcf}, "far return");                                // iretq
    expect_refused({0xff, 0x18}, "far call or jump");                          // lcall *(%rax)
    expect_refused({0x66, 0xe9, 0, 1, 0, 0}, "16-bit branch");                 // jmpw
    expect_refused({0x66, 0xe8, 0, 1, 0, 0}, "16-bit branch");                 // callw
    expect_refused({0x66, 0xff, 0xe0}, "16-bit branch");                       // jmp *%ax
    expect_refused({0x67, 0x8b, 0x05, 0, 0, 2, 0}, "operand relative to eip"); // mov 0(%eip),%eax
    expect_refused({0x67, 0xff, 0x14, 0x24}, "call with a 32-bit address");    // call *(%esp)
    expect_refused({0x06}, "unknown instruction");       // invalid in 64-bit mode
    expect_refused({0x48, 0x8b}, "unknown instruction"); // cut short
    expect_refused({}, "no code");
}

} // namespace
} // namespace memleax::arch
