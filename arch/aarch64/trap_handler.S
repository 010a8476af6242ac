// SPDX-License-Identifier: GPL-3.0-or-later
// The SIGTRAP handler that is in the target while our breakpoints are. As long as we trace, our hits
// never get here; it lets an unwatched one go on in its slot. What is not ours goes to the handler
// that the target has, or ends the process as it would without us. A thread that is about to set
// another handler waits for the guardian, who is about to put the code back: without ours, the next
// breakpoint would be taken for the target's own. It runs in the target only, never
// here: position-independent, no stack but what it pushes, all signals blocked (sa_mask). Its page is
// not guarded (BTI), so it needs no landing pads.
//
// Called as handler(signal in w0, siginfo in x1, ucontext in x2), to return to x30. Offsets are those
// of <bits/types/siginfo_t.h> and of struct ucontext (arch/arm64/include/uapi/asm).
#include <sys/syscall.h>

#define SI_CODE 8
#define UC_SIGMASK 40
#define UC_X0 184
#define UC_PC 440
#define CODE_BREAKPOINT 1 /* TRAP_BRKPT, the si_code of a brk */
#define SLOT_BYTES 64
#define SLOT_KEY 56
#define BREAKPOINT 0xd4200000
#define HOLD_ROUNDS (1 << 26) /* about a second */
#define MOST_HOLDS 8 /* then nobody is left who puts the code back */
#define SIGNAL_TRAP 5
#define TRAP_BIT (1 << (SIGNAL_TRAP - 1))
#define SIG_SETMASK_ 2
#define SIGSET_BYTES 8
#define SA_NODEFER_ 0x40000000
#define SA_RESETHAND_ 0x80000000
#define WAY_BACK_DATA 0x10000 /* kWayBackDataAt */
#define UNATTENDED 8 /* kUnattendedAt */
#define WAITED 9 /* in vain, so often */
#define HELD 10 /* kHeldAt */
#define CALL_TABLE 64 /* kCallTableAt */
#define CALL_BYTES 64 /* struct TableCall */
#define CALL_RESULT 56
#define RETURN_FRAME 1024 /* kReturnFrameAt */

        .section .rodata
        .globl  memleax_trap_handler, memleax_trap_handler_restorer
        .globl  memleax_trap_handler_parking, memleax_trap_handler_way_back, memleax_trap_handler_data
        .hidden memleax_trap_handler, memleax_trap_handler_restorer
        .hidden memleax_trap_handler_parking, memleax_trap_handler_way_back, memleax_trap_handler_data
        .globl  memleax_trap_handler_calls, memleax_trap_handler_calls_end
        .hidden memleax_trap_handler_calls, memleax_trap_handler_calls_end
        .balign 16
memleax_trap_handler:
        adr     x3, memleax_trap_handler_data
        ldr     w4, [x1, #SI_CODE]
        cmp     w4, #CODE_BREAKPOINT
        b.ne    .Lforeign
        ldr     x5, [x2, #UC_PC]                // where the brk stands
        ldr     x6, [x3, #24]
        add     x7, x3, #32
.Lregion:
        cbz     x6, .Lforeign
        ldp     x8, x9, [x7], #16
        cmp     x5, x8
        b.lo    .Lslot
        cmp     x5, x9
        b.lo    .Ldone                          // the tracer had moved it into its slot already
.Lslot:
        ldr     x10, [x8, #SLOT_KEY]
        and     x11, x10, #0x7fffffffffffffff
        cmp     x11, x5
        b.eq    .Lfound
        add     x8, x8, #SLOT_BYTES
        cmp     x8, x9
        b.lo    .Lslot
        sub     x6, x6, #1
        b       .Lregion
.Lfound:
        adr     x14, memleax_trap_handler+WAY_BACK_DATA
        tbz     x10, #63, .Lgo                  // kSlotHolds: sigaction(3)
        ldr     w11, [x2, #UC_X0]               // its first argument
        cmp     w11, #SIGNAL_TRAP
        b.ne    .Lgo
        ldrb    w15, [x14, #WAITED]
        cmp     w15, #MOST_HOLDS
        b.hs    .Lgo
        mov     w11, #1
        strb    w11, [x14, #HELD]
        mov     w12, #HOLD_ROUNDS               // no system call: a filter might end the process
        mov     w13, #BREAKPOINT
.Lhold:
        ldr     w11, [x5]
        cmp     w11, w13
        b.ne    .Ldone                          // the pc is still there
        isb                                     // a pause
        subs    w12, w12, #1
        b.ne    .Lhold
        add     w15, w15, #1
        strb    w15, [x14, #WAITED]
.Lgo:
        mov     w12, #1
        strb    w12, [x14, #UNATTENDED]
        str     x8, [x2, #UC_PC]
.Ldone:
        ret

.Lforeign:
        ldr     x5, [x3]
        cmp     x5, #1
        b.hi    .Lchain
        b.lo    .Ldefault
        cmp     w4, #CODE_BREAKPOINT            // ignored, but for what the kernel forces
        b.ne    .Ldone

.Ldefault:                                      // let it come again, and take its course
        stp     x4, x30, [sp, #-16]!
        bl      .Lset_default
        ldp     x4, x30, [sp], #16
        cmp     w4, #CODE_BREAKPOINT            // the pc is still at the brk
        b.eq    .Ldone
        mov     x8, #SYS_getpid
        svc     #0
        mov     w9, w0
        mov     x8, #SYS_gettid
        svc     #0
        mov     w1, w0
        mov     w0, w9
        mov     w2, #SIGNAL_TRAP
        mov     x8, #SYS_tgkill
        svc     #0
        ret

.Lset_default:                                  // rt_sigaction(SIGTRAP, {SIG_DFL}, NULL, 8)
        stp     xzr, xzr, [sp, #-32]!
        stp     xzr, xzr, [sp, #16]
        mov     w0, #SIGNAL_TRAP
        mov     x1, sp
        mov     x2, #0
        mov     x3, #SIGSET_BYTES
        mov     x8, #SYS_rt_sigaction
        svc     #0
        add     sp, sp, #32
        ret

.Lchain:                                        // as if the kernel had called the target's handler
        stp     x0, x30, [sp, #-48]!
        stp     x1, x2, [sp, #16]
        ldr     x4, [x3, #16]
        mov     x5, #SA_RESETHAND_
        tst     x4, x5
        b.eq    1f
        bl      .Lset_default
        adr     x3, memleax_trap_handler_data
        ldr     x2, [sp, #24]
        ldr     x4, [x3, #16]
1:      ldr     x5, [x2, #UC_SIGMASK]
        ldr     x6, [x3, #8]
        orr     x5, x5, x6
        tst     x4, #SA_NODEFER_
        b.ne    2f
        orr     x5, x5, #TRAP_BIT
2:      str     x5, [sp, #32]
        mov     w0, #SIG_SETMASK_
        add     x1, sp, #32
        mov     x2, #0
        mov     x3, #SIGSET_BYTES
        mov     x8, #SYS_rt_sigprocmask
        svc     #0
        ldr     x16, memleax_trap_handler_data
        ldp     x1, x2, [sp, #16]
        ldp     x0, x30, [sp], #48
        br      x16                             // x16: any landing pad lets it in

memleax_trap_handler_restorer:
        mov     x8, #SYS_rt_sigreturn
        svc     #0

memleax_trap_handler_parking:
        svc     #0
1:      b       1b

memleax_trap_handler_way_back:                  // the thread's own stack is not touched
        svc     #0
        adr     x1, memleax_trap_handler+WAY_BACK_DATA
        str     x0, [x1]
.Lreturn:
        add     sp, x1, #RETURN_FRAME
        mov     x8, #SYS_rt_sigreturn
        svc     #0

memleax_trap_handler_calls:
        adr     x19, memleax_trap_handler+WAY_BACK_DATA
        add     x20, x19, #CALL_TABLE
1:      ldp     x8, x0, [x20]
        tbnz    x8, #63, 2f
        ldp     x1, x2, [x20, #16]
        ldp     x3, x4, [x20, #32]
        ldr     x5, [x20, #48]
        svc     #0
        str     x0, [x20, #CALL_RESULT]
        add     x20, x20, #CALL_BYTES
        b       1b
2:      mov     x21, x0                         // its ids are those of its own PID namespace
        mov     x8, #SYS_getpid
        svc     #0
        mov     x22, x0
        mov     x8, #SYS_gettid
        svc     #0
        mov     x1, x0
        mov     x0, x22
        mov     x2, x21
        mov     x8, #SYS_tgkill
        svc     #0
memleax_trap_handler_calls_end:
        mov     x1, x19
        b       .Lreturn

        .balign 16
memleax_trap_handler_data:

        .section .note.GNU-stack,"",@progbits
