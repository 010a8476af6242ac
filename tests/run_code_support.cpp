// SPDX-License-Identifier: GPL-3.0-or-later
#include "run_code_support.hpp"

#include <cstddef>

static_assert(offsetof(memleax::CpuState, flags) == 128 && offsetof(memleax::CpuState, fx) == 144);

extern "C" {
memleax::CpuState memleax_test_in;
memleax::CpuState memleax_test_out;
std::uint32_t memleax_test_exit;
std::uint64_t memleax_test_host_sp;
std::uint64_t memleax_test_code;
}

asm(R"(
    .text
    .globl memleax_test_enter
    .globl memleax_test_exit_next
    .globl memleax_test_exit_taken
    .globl memleax_test_exit_taken_back
memleax_test_enter:
    push %rbx
    push %rbp
    push %r12
    push %r13
    push %r14
    push %r15
    mov %rsp, memleax_test_host_sp(%rip)
    mov %rdi, memleax_test_code(%rip)
    fxrstor64 memleax_test_in+144(%rip)
    pushq memleax_test_in+128(%rip)
    popfq
    mov memleax_test_in+0(%rip), %rax
    mov memleax_test_in+8(%rip), %rcx
    mov memleax_test_in+16(%rip), %rdx
    mov memleax_test_in+24(%rip), %rbx
    mov memleax_test_in+32(%rip), %rsp
    mov memleax_test_in+40(%rip), %rbp
    mov memleax_test_in+48(%rip), %rsi
    mov memleax_test_in+56(%rip), %rdi
    mov memleax_test_in+64(%rip), %r8
    mov memleax_test_in+72(%rip), %r9
    mov memleax_test_in+80(%rip), %r10
    mov memleax_test_in+88(%rip), %r11
    mov memleax_test_in+96(%rip), %r12
    mov memleax_test_in+104(%rip), %r13
    mov memleax_test_in+112(%rip), %r14
    mov memleax_test_in+120(%rip), %r15
    jmp *memleax_test_code(%rip)
memleax_test_exit_next:
    movl $0, memleax_test_exit(%rip)
    jmp 1f
memleax_test_exit_taken:
    movl $1, memleax_test_exit(%rip)
    jmp 1f
memleax_test_exit_taken_back:
    movl $2, memleax_test_exit(%rip)
1:  mov %rsp, memleax_test_out+32(%rip)
    mov memleax_test_host_sp(%rip), %rsp
    pushfq
    popq memleax_test_out+128(%rip)
    cld
    mov %rax, memleax_test_out+0(%rip)
    mov %rcx, memleax_test_out+8(%rip)
    mov %rdx, memleax_test_out+16(%rip)
    mov %rbx, memleax_test_out+24(%rip)
    mov %rbp, memleax_test_out+40(%rip)
    mov %rsi, memleax_test_out+48(%rip)
    mov %rdi, memleax_test_out+56(%rip)
    mov %r8, memleax_test_out+64(%rip)
    mov %r9, memleax_test_out+72(%rip)
    mov %r10, memleax_test_out+80(%rip)
    mov %r11, memleax_test_out+88(%rip)
    mov %r12, memleax_test_out+96(%rip)
    mov %r13, memleax_test_out+104(%rip)
    mov %r14, memleax_test_out+112(%rip)
    mov %r15, memleax_test_out+120(%rip)
    fxsave64 memleax_test_out+144(%rip)
    pop %r15
    pop %r14
    pop %r13
    pop %r12
    pop %rbp
    pop %rbx
    ret
)");
