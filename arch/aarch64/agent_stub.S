// SPDX-License-Identifier: GPL-3.0-or-later
// The way into the agent and out of it (src/engine/inline/agent/): executed in the target, in place
// of a watched function. Position-independent; no stack but its frame, no vector register.
//
// A thunk (thunk_code) jumps here with the agent's Function in x16, and all else as at the function's
// entry: x16 and x17 are the linker's, and nobody keeps anything in them across a call (AAPCS64,
// 6.1.1). What memleax_agent_enter answers:
//
//      0  trap     to Function::trap, with all registers back
//      1  pass     to Function::pass, likewise: nobody is to know of this call
//      2  call     Function::called, which is the original function or its nothrow twin, is called
//                  from here, with our frame on the stack; then memleax_agent_leave is told its
//                  result, if Frame::ending is not "free". If that answers false, it goes on as
//                  after "trap".
//
// All registers but the result are as the called function left them, or as they were before it.
//
// The frame, from x29 downwards: at x29 the frame record, so that the CFA is x29 + 16. Foreign
// unwinders have no table for it. Its layout is struct Frame's (agent.hpp), from sp upwards:
//
//      0   4 words of the agent's own (0 Progress, 28 Ending)      32  x0 to x15, Function, a word, two results

#define FUNCTION_TRAP 16
#define FUNCTION_CALLED 32
#define FUNCTION_PASS 40
#define ENDING 28
#define ENDING_FREE 2
#define PROGRESS_INSIDE 8
#define PROGRESS_INTERRUPTED 28
#define SAVED 32
#define FUNCTION (SAVED + 16 * 8)
#define RESULTS (FUNCTION + 16)
#define RECORD (RESULTS + 16)
#define FRAME_BYTES (RECORD + 16)

        .section memleax_agent, "ax", %progbits
        .globl  memleax_agent_stub, memleax_agent_return_place
        .hidden memleax_agent_stub, memleax_agent_return_place
        .balign 64
memleax_agent_stub:
        sub     sp, sp, #FRAME_BYTES
        stp     x29, x30, [sp, #RECORD]
        stp     x0, x1, [sp, #SAVED]
        stp     x2, x3, [sp, #SAVED+16]
        stp     x4, x5, [sp, #SAVED+32]
        stp     x6, x7, [sp, #SAVED+48]
        stp     x8, x9, [sp, #SAVED+64]
        stp     x10, x11, [sp, #SAVED+80]
        stp     x12, x13, [sp, #SAVED+96]
        stp     x14, x15, [sp, #SAVED+112]
        str     x16, [sp, #FUNCTION]
        mov     x0, x16                         // const Function*
        mov     x1, sp                          // Frame*
        add     x2, sp, #FRAME_BYTES            // the stack pointer at the entry
        mov     x3, x29                         // the caller's frame pointer
        mov     x4, x30                         // the return address
        add     x29, sp, #RECORD
        bl      memleax_agent_enter
        mov     w17, w0
        ldp     x0, x1, [sp, #SAVED]
        ldp     x2, x3, [sp, #SAVED+16]
        ldp     x4, x5, [sp, #SAVED+32]
        ldp     x6, x7, [sp, #SAVED+48]
        ldp     x8, x9, [sp, #SAVED+64]
        ldp     x10, x11, [sp, #SAVED+80]
        ldp     x12, x13, [sp, #SAVED+96]
        ldp     x14, x15, [sp, #SAVED+112]
        ldr     x16, [sp, #FUNCTION]
        cmp     w17, #1
        b.hi    .Lcall
        ldp     x29, x30, [sp, #RECORD]
        add     sp, sp, #FRAME_BYTES            // no flag changes
        b.eq    .Lpass
        ldr     x17, [x16, #FUNCTION_TRAP]
        br      x17
.Lpass:
        ldr     x17, [x16, #FUNCTION_PASS]
        br      x17

.Lcall:
        ldr     x17, [x16, #FUNCTION_CALLED]
        blr     x17
memleax_agent_return_place:
        ldr     w16, [sp, #ENDING]
        cmp     w16, #ENDING_FREE
        b.eq    .Lfreed
        stp     x0, x1, [sp, #RESULTS]          // a second word, if there is one
        mov     x1, x0
        mov     x0, sp                          // Frame*
        bl      memleax_agent_leave
        cbz     w0, .Lfailed
        ldp     x0, x1, [sp, #RESULTS]
        ldp     x2, x3, [sp, #SAVED+16]
        ldp     x4, x5, [sp, #SAVED+32]
        ldp     x6, x7, [sp, #SAVED+48]
        ldp     x8, x9, [sp, #SAVED+64]
        ldp     x10, x11, [sp, #SAVED+80]
        ldp     x12, x13, [sp, #SAVED+96]
        ldp     x14, x15, [sp, #SAVED+112]
        ldp     x29, x30, [sp, #RECORD]
        add     sp, sp, #FRAME_BYTES
        ret

.Lfreed:                                        // the other registers are as it left them
        ldr     x17, [sp]
        add     x16, x17, #PROGRESS_INSIDE
        stlr    xzr, [x16]
        add     x16, x17, #PROGRESS_INTERRUPTED
        stlrb   wzr, [x16]
        ldp     x29, x30, [sp, #RECORD]
        add     sp, sp, #FRAME_BYTES
        ret

.Lfailed:                                       // x1 is the last argument that such a function has
        ldp     x0, x1, [sp, #SAVED]
        ldr     x16, [sp, #FUNCTION]
        ldp     x29, x30, [sp, #RECORD]
        add     sp, sp, #FRAME_BYTES
        ldr     x17, [x16, #FUNCTION_TRAP]
        br      x17

        .section .note.GNU-stack,"",%progbits
