// SPDX-License-Identifier: GPL-3.0-or-later
// Displaced jumps, calls and returns, bytes in and bytes out.
#include "displace_expect.hpp"

namespace memleax::arch::test {
namespace {

TEST(DisplaceBranch, Jump) {
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

TEST(DisplaceBranch, ConditionalJump) {
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

TEST(DisplaceBranch, CounterJump) {
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

TEST(DisplaceBranch, CallPushesTheOriginalReturnAddress) {
    // call 1105
    expect_moved({0xe8, 0, 1, 0, 0}, kSlot,
                 {0x68, 0x05, 0x10, 0x00, 0x00,          // push $0x1005
                  0xc7, 0x44, 0x24, 0x04, 0, 0x7f, 0, 0, // movl $0x7f00,4(%rsp)
                  0xe9, 0xf3, 0x00, 0xff, 0xff},         // jmp 1105
                 {{0, kFrom, 0}, {5, kFrom, 8}, {13, kFrom + 0x105, 0}});
    // addr32 call 1106, as a linker makes it out of call *foo@GOTPCREL(%rip)
    expect_moved({0x67, 0xe8, 0, 1, 0, 0}, kSlot,
                 {0x68, 0x06, 0x10, 0x00, 0x00,          // push $0x1006
                  0xc7, 0x44, 0x24, 0x04, 0, 0x7f, 0, 0, // movl $0x7f00,4(%rsp)
                  0xe9, 0xf4, 0x00, 0xff, 0xff},         // jmp 1106
                 {{0, kFrom, 0}, {5, kFrom, 8}, {13, kFrom + 0x106, 0}});
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

TEST(DisplaceBranch, IndirectCall) {
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

TEST(DisplaceBranch, IndirectCallThroughTheStack) {
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

TEST(DisplaceBranch, NoWayBackAfterReturnAndIndirectJump) {
    const Points only_start{{0, kFrom, 0}};
    expect_moved({0xc3}, kSlot, {0xc3}, only_start);                         // ret
    expect_moved({0xf3, 0xc3}, kSlot, {0xf3, 0xc3}, only_start);             // rep ret
    expect_moved({0xc2, 0x10, 0}, kSlot, {0xc2, 0x10, 0}, only_start);       // ret $0x10
    expect_moved({0xff, 0xe0}, kFarSlot, {0xff, 0xe0}, only_start);          // jmp *%rax
    expect_moved({0x3e, 0xff, 0xe0}, kSlot, {0x3e, 0xff, 0xe0}, only_start); // notrack jmp *%rax
    // bnd jmp *0x20000(%rip), a PLT entry
    expect_moved({0xf2, 0xff, 0x25, 0, 0, 2, 0}, kSlot, {0xf2, 0xff, 0x25, 0, 0, 1, 0}, only_start);
}

} // namespace
} // namespace memleax::arch::test
