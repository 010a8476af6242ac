// SPDX-License-Identifier: GPL-3.0-or-later
// Displaced instructions, bytes in and bytes out; branches and calls are in
// displace_branch_test.cpp. What they do when executed is tested in
// displace_execution_test.cpp; that all code of real programs can be moved in
// displace_sweep_test.cpp.
#include "displace_expect.hpp"

namespace memleax::arch::test {
namespace {

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
    // A prefix behind REX, and a second REX
    expect_refused({0x48, 0x66, 0x90}, "unclear encoding");
    expect_refused({0x48, 0x48, 0xe8, 0, 1, 0, 0}, "unclear encoding");
    expect_refused({0x06}, "unknown instruction");       // invalid in 64-bit mode
    expect_refused({0x48, 0x8b}, "unknown instruction"); // cut short
    expect_refused({}, "no code");
}

} // namespace
} // namespace memleax::arch::test
