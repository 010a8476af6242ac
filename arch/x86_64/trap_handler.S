// SPDX-License-Identifier: GPL-3.0-or-later
// The SIGTRAP handler that is in the target while our breakpoints are. As long as we trace, our hits
// never get here; it lets an unwatched one go on in its slot. What is not ours goes to the handler
// that the target has, or ends the process as it would without us. A thread that is about to set
// another handler waits for the guardian, who is about to put the code back: without ours, the next
// breakpoint would be taken for the target's own. It runs in the target only, never
// here: position-independent, no stack but what it pushes, all signals blocked (sa_mask).
//
// Called as handler(signal in edi, siginfo in rsi, ucontext in rdx). Offsets are those of
// <bits/types/siginfo_t.h> and of struct ucontext up to uc_sigmask (arch/x86/include/uapi/asm).
#include <sys/syscall.h>

#define SI_CODE 8
#define UC_RDI 104
#define UC_RIP 168
#define UC_SIGMASK 296
#define CODE_KERNEL 0x80 /* si_code of an int3 */
#define SLOT_BYTES 64
#define SLOT_KEY 56
#define BREAKPOINT 0xcc
#define HOLD_ROUNDS (1 << 26) /* about a second */
#define MOST_HOLDS 8 /* then nobody is left who puts the code back */
#define SIGNAL_TRAP 5
#define TRAP_BIT (1 << (SIGNAL_TRAP - 1))
#define SIG_SETMASK_ 2
#define SIGSET_BYTES 8
#define SA_NODEFER_ 0x40000000
#define SA_RESETHAND_ 0x80000000
#define WAY_BACK_DATA 0x10000 /* kWayBackDataAt */
#define UNATTENDED (WAY_BACK_DATA + 8) /* kUnattendedAt */
#define WAITED (UNATTENDED + 1) /* in vain, so often */
#define RETURN_FRAME (WAY_BACK_DATA + 64) /* kReturnFrameAt */

        .section .rodata
        .globl  memleax_trap_handler, memleax_trap_handler_restorer
        .globl  memleax_trap_handler_parking, memleax_trap_handler_way_back, memleax_trap_handler_data
        .hidden memleax_trap_handler, memleax_trap_handler_restorer
        .hidden memleax_trap_handler_parking, memleax_trap_handler_way_back, memleax_trap_handler_data
        .balign 16
memleax_trap_handler:
        cmpl    $CODE_KERNEL, SI_CODE(%rsi)
        jne     .Lforeign
        mov     UC_RIP(%rdx), %rax
        lea     -1(%rax), %rcx                  // where the int3 stands
        lea     memleax_trap_handler_data+32(%rip), %r8
        mov     memleax_trap_handler_data+24(%rip), %r9
.Lregion:
        test    %r9, %r9
        jz      .Lforeign
        mov     (%r8), %r10
        mov     8(%r8), %r11
        cmp     %r10, %rax
        jb      .Lslot
        cmp     %r11, %rax
        jb      .Ldone                          // the tracer had moved it into its slot already
.Lslot:
        mov     SLOT_KEY(%r10), %rax
        btr     $63, %rax
        cmp     %rcx, %rax
        je      .Lfound
        dec     %rax
        cmp     %rcx, %rax
        je      .Lagain
.Lnext: add     $SLOT_BYTES, %r10
        cmp     %r11, %r10
        jb      .Lslot
        lea     1(%rcx), %rax
        add     $16, %r8
        dec     %r9
        jmp     .Lregion
.Lfound:
        testb   $0x80, SLOT_KEY+7(%r10)         // kSlotHolds: sigaction(3)
        jz      .Lgo
        cmpl    $SIGNAL_TRAP, UC_RDI(%rdx)      // its first argument
        jne     .Lgo
        cmpb    $MOST_HOLDS, memleax_trap_handler+WAITED(%rip)
        jae     .Lgo
        mov     $HOLD_ROUNDS, %r8d              // no system call: a filter might end the process
.Lhold:
        cmpb    $BREAKPOINT, (%rcx)
        jne     .Lback
        pause
        dec     %r8d
        jnz     .Lhold
        incb    memleax_trap_handler+WAITED(%rip)
.Lgo:
        movb    $1, memleax_trap_handler+UNATTENDED(%rip)
        mov     %r10, UC_RIP(%rdx)
.Ldone:
        ret
.Lback:
        mov     %rcx, UC_RIP(%rdx)
        ret
.Lagain:                                        // the pc is at the int3: the tracer kept it there
        testb   $0x80, SLOT_KEY+7(%r10)
        jz      .Lnext
        ret

.Lforeign:
        mov     memleax_trap_handler_data(%rip), %rax
        cmp     $1, %rax
        ja      .Lchain
        jb      .Ldefault
        cmpl    $CODE_KERNEL, SI_CODE(%rsi)     // ignored, but for what the kernel forces
        jne     .Ldone

.Ldefault:                                      // let it come again, and take its course
        cmpl    $CODE_KERNEL, SI_CODE(%rsi)
        push    %rsi
        jne     1f
        decq    UC_RIP(%rdx)
1:      call    .Lset_default
        pop     %rsi
        cmpl    $CODE_KERNEL, SI_CODE(%rsi)
        je      .Ldone
        mov     $SYS_getpid, %eax
        syscall
        mov     %eax, %edi
        push    %rdi
        mov     $SYS_gettid, %eax
        syscall
        pop     %rdi
        mov     %eax, %esi
        mov     $SIGNAL_TRAP, %edx
        mov     $SYS_tgkill, %eax
        syscall
        ret

.Lset_default:                                  // rt_sigaction(SIGTRAP, {SIG_DFL}, NULL, 8)
        xor     %eax, %eax
        push    %rax
        push    %rax
        push    %rax
        push    %rax
        mov     $SIGNAL_TRAP, %edi
        mov     %rsp, %rsi
        xor     %edx, %edx
        mov     $SIGSET_BYTES, %r10d
        mov     $SYS_rt_sigaction, %eax
        syscall
        add     $32, %rsp
        ret

.Lchain:                                        // as if the kernel had called the target's handler
        push    %rdi
        push    %rsi
        push    %rdx
        mov     memleax_trap_handler_data+16(%rip), %rcx
        mov     $SA_RESETHAND_, %eax
        test    %rax, %rcx
        jz      1f
        call    .Lset_default
        mov     (%rsp), %rdx
        mov     memleax_trap_handler_data+16(%rip), %rcx
1:      mov     UC_SIGMASK(%rdx), %rax
        or      memleax_trap_handler_data+8(%rip), %rax
        test    $SA_NODEFER_, %ecx
        jnz     2f
        or      $TRAP_BIT, %rax
2:      push    %rax
        mov     $SIG_SETMASK_, %edi
        mov     %rsp, %rsi
        xor     %edx, %edx
        mov     $SIGSET_BYTES, %r10d
        mov     $SYS_rt_sigprocmask, %eax
        syscall
        pop     %rax
        pop     %rdx
        pop     %rsi
        pop     %rdi
        jmp     *memleax_trap_handler_data(%rip)

memleax_trap_handler_restorer:
        mov     $SYS_rt_sigreturn, %eax
        syscall

memleax_trap_handler_parking:
        syscall
1:      jmp     1b

memleax_trap_handler_way_back:                  // the thread's own stack is not touched
        syscall
        mov     %rax, memleax_trap_handler+WAY_BACK_DATA(%rip)
        lea     memleax_trap_handler+RETURN_FRAME(%rip), %rsp
        mov     $SYS_rt_sigreturn, %eax
        syscall

        .balign 16
memleax_trap_handler_data:

        .section .note.GNU-stack,"",@progbits
