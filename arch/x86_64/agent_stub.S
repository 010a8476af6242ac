// SPDX-License-Identifier: GPL-3.0-or-later
// The way into the agent and out of it (src/engine/inline/agent/): executed in the target, in place
// of a watched function. Position-independent; no stack but what it pushes, no vector register.
//
// A thunk (thunk_code) jumps here with the agent's Function in r11, r11 itself in -16(%rsp),
// and all else as at the function's entry. What memleax_agent_enter answers:
//
//      0  trap     to Function::trap, with all registers back (there r11, too)
//      1  pass     to Function::pass, likewise: nobody is to know of this call
//      2  call     Function::called, which is the original function or its nothrow twin, is
//                  called from here, with our frame on the stack; then memleax_agent_leave is told
//                  its result, if Frame::ending is not "free". If that answers false, it goes on as
//                  after "trap".
//
// All registers but the result are as the called function left them, or as they were before it.
//
// The frame, from rbp downwards, keeps a frame pointer. Foreign unwinders have no table for it.
// Its layout is struct Frame's (agent.hpp), from rsp upwards:
//
//      0   4 words of the agent's own (0 Progress, 28 Ending)          32  rax rdi rsi rdx rcx r8 r9 r10 Function r11

#define FUNCTION_TRAP 16
#define FUNCTION_CALLED 32
#define FUNCTION_PASS 40
#define ENDING 28
#define ENDING_FREE 2
#define PROGRESS_INSIDE 8
#define PROGRESS_INTERRUPTED 28
#define SAVED 32
#define FRAME_BYTES (SAVED + 10 * 8) /* rsp is a multiple of 16 at a call */

        .section memleax_agent, "ax", @progbits
        .globl  memleax_agent_stub, memleax_agent_return_place
        .hidden memleax_agent_stub, memleax_agent_return_place
        .balign 64
memleax_agent_stub:
        push    %rbp
        mov     %rsp, %rbp
        sub     $FRAME_BYTES, %rsp
        mov     %rax, SAVED(%rsp)
        mov     %rdi, SAVED+8(%rsp)
        mov     %rsi, SAVED+16(%rsp)
        mov     %rdx, SAVED+24(%rsp)
        mov     %rcx, SAVED+32(%rsp)
        mov     %r8, SAVED+40(%rsp)
        mov     %r9, SAVED+48(%rsp)
        mov     %r10, SAVED+56(%rsp)
        mov     %r11, SAVED+64(%rsp)
        mov     %r11, %rdi                      // const Function*
        mov     %rsp, %rsi                      // Frame*
        lea     8(%rbp), %rdx                   // the stack pointer at the entry
        mov     (%rbp), %rcx                    // the caller's frame pointer
        mov     8(%rbp), %r8                    // the return address
        call    memleax_agent_enter
        mov     %eax, %r11d
        mov     SAVED(%rsp), %rax
        mov     SAVED+8(%rsp), %rdi
        mov     SAVED+16(%rsp), %rsi
        mov     SAVED+24(%rsp), %rdx
        mov     SAVED+32(%rsp), %rcx
        mov     SAVED+40(%rsp), %r8
        mov     SAVED+48(%rsp), %r9
        mov     SAVED+56(%rsp), %r10
        cmp     $1, %r11d
        mov     SAVED+64(%rsp), %r11
        ja      .Lcall
        leave                                   // no flag changes
        je      .Lpass
        jmp     *FUNCTION_TRAP(%r11)
.Lpass:
        jmp     *FUNCTION_PASS(%r11)

.Lcall:
        call    *FUNCTION_CALLED(%r11)
memleax_agent_return_place:
        cmpl    $ENDING_FREE, ENDING(%rsp)
        je      .Lfreed
        mov     %rax, SAVED(%rsp)
        mov     %rdx, SAVED+24(%rsp)            // a second word of the result, if there is one
        mov     %rsp, %rdi                      // Frame*
        mov     %rax, %rsi
        call    memleax_agent_leave
        test    %al, %al
        mov     SAVED(%rsp), %rax
        mov     SAVED+8(%rsp), %rdi
        mov     SAVED+16(%rsp), %rsi
        jz      .Lfailed
        mov     SAVED+24(%rsp), %rdx
        mov     SAVED+32(%rsp), %rcx
        mov     SAVED+40(%rsp), %r8
        mov     SAVED+48(%rsp), %r9
        mov     SAVED+56(%rsp), %r10
        mov     SAVED+72(%rsp), %r11
        leave
        ret

.Lfreed:                                        // the other registers are as it left them
        mov     (%rsp), %r11
        movq    $0, PROGRESS_INSIDE(%r11)       // stores are seen in their order
        movb    $0, PROGRESS_INTERRUPTED(%r11)
        mov     SAVED+72(%rsp), %r11
        leave
        ret

.Lfailed:                                       // rsi is the last argument that such a function has
        mov     SAVED+64(%rsp), %r11
        leave
        jmp     *FUNCTION_TRAP(%r11)

        .section .note.GNU-stack,"",@progbits
