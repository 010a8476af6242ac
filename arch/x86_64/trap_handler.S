// SPDX-License-Identifier: GPL-3.0-or-later
// The SIGTRAP handler that is in the target while our breakpoints are. As long as we trace, our hits
// never get here; it lets an unwatched one go on in its slot. What is not ours goes to the handler
// that the target has, or ends the process as it would without us. A thread that is about to set
// another handler waits for the guardian, who is about to put the code back: without ours, the next
// breakpoint would be taken for the target's own. It runs in the target only, never
// here: position-independent, no stack but what it pushes.
//
// Where it stands before a handler of the target's, all signals are blocked meanwhile (sa_mask).
// Else none is, and a thread gets back to its code without a system call: a seccomp filter may end
// the process for rt_sigreturn (OpenSSH's does). Which of the two holds is told by the restorer, as
// the kernel takes it with the mask.
//
// Called as handler(signal in edi, siginfo in rsi, ucontext in rdx). Offsets are those of
// <bits/types/siginfo_t.h> and of struct ucontext up to uc_sigmask (arch/x86/include/uapi/asm).
#include <sys/syscall.h>

#define SI_CODE 8
#define UC_FLAGS 0
#define UC_STACK_FLAGS 24
#define UC_R8 40
#define UC_R9 48
#define UC_R10 56
#define UC_R11 64
#define UC_R12 72
#define UC_R13 80
#define UC_R14 88
#define UC_R15 96
#define UC_RDI 104
#define UC_RSI 112
#define UC_RBP 120
#define UC_RBX 128
#define UC_RDX 136
#define UC_RAX 144
#define UC_RCX 152
#define UC_RSP 160
#define UC_RIP 168
#define UC_EFLAGS 176
#define UC_CS 184
#define UC_SS 190
#define UC_FPSTATE 224
#define UC_SIGMASK 296
/* struct _fpx_sw_bytes, in the state's unused part: is it XSAVE's, and of which features? */
#define FP_MAGIC 464
#define FP_FEATURES 472
#define FP_XSTATE_MAGIC1 0x46505853
#define UC_SIGCONTEXT_SS 2
#define SS_AUTODISARM_ 0x80000000 /* the kernel has taken the sigaltstack away meanwhile */
#define CODE_KERNEL 0x80 /* si_code of an int3 */
#define SLOT_BYTES 64
#define SLOT_KEY 56
#define BREAKPOINT 0xcc
#define HOLD_ROUNDS (1 << 26) /* about a second */
#define MOST_HOLDS 8 /* then nobody is left who puts the code back */
#define SIGNAL_TRAP 5
#define TRAP_BIT (1 << (SIGNAL_TRAP - 1))
#define SIG_BLOCK_ 0
#define SIG_SETMASK_ 2
#define SIGSET_BYTES 8
#define SA_NODEFER_ 0x40000000
#define SA_RESETHAND_ 0x80000000
#define WAY_BACK_DATA 0x10000 /* kWayBackDataAt */
#define UNATTENDED (WAY_BACK_DATA + 8) /* kUnattendedAt */
#define WAITED (UNATTENDED + 1) /* in vain, so often */
#define HELD (UNATTENDED + 2) /* kHeldAt */
#define CALL_TABLE (WAY_BACK_DATA + 64) /* kCallTableAt */
#define CALL_BYTES 64 /* struct TableCall */
#define CALL_RESULT 56
#define RETURN_FRAME (WAY_BACK_DATA + 1024) /* kReturnFrameAt */

        .section .rodata
        .globl  memleax_trap_handler, memleax_trap_handler_restorer
        .globl  memleax_trap_handler_unblocked_restorer
        .globl  memleax_trap_handler_parking, memleax_trap_handler_way_back, memleax_trap_handler_data
        .hidden memleax_trap_handler, memleax_trap_handler_restorer
        .hidden memleax_trap_handler_unblocked_restorer
        .hidden memleax_trap_handler_parking, memleax_trap_handler_way_back, memleax_trap_handler_data
        .globl  memleax_trap_handler_calls, memleax_trap_handler_calls_end
        .hidden memleax_trap_handler_calls, memleax_trap_handler_calls_end
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
        movb    $1, memleax_trap_handler+HELD(%rip)
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
        jmp     .Ldone
.Lback:
        mov     %rcx, UC_RIP(%rdx)
        jmp     .Ldone
.Lagain:                                        // the pc is at the int3: the tracer kept it there
        testb   $0x80, SLOT_KEY+7(%r10)
        jz      .Lnext

.Ldone:                                         // back to what was interrupted, as it is in rdx
        lea     memleax_trap_handler_unblocked_restorer(%rip), %rax
        cmp     %rax, (%rsp)
        jne     .Lsigreturn
        testl   $SS_AUTODISARM_, UC_STACK_FLAGS(%rdx)
        jnz     .Lsigreturn
        xor     %eax, %eax
        rdsspq  %rax                            // a no-op without a shadow stack
        test    %rax, %rax
        jnz     .Lsigreturn
        mov     UC_FPSTATE(%rdx), %rcx
        test    %rcx, %rcx
        jz      .Lsigreturn
        cmpl    $FP_XSTATE_MAGIC1, FP_MAGIC(%rcx)
        jne     .Lsigreturn
        testb   $UC_SIGCONTEXT_SS, UC_FLAGS(%rdx) // before Linux 4.6 ss is not there
        jz      .Lsigreturn
        mov     %rdx, %r8
        movzwl  UC_SS(%r8), %eax                // iretq takes all five at once
        push    %rax
        push    UC_RSP(%r8)
        push    UC_EFLAGS(%r8)
        movzwl  UC_CS(%r8), %eax
        push    %rax
        push    UC_RIP(%r8)
        push    UC_R8(%r8)
        mov     FP_FEATURES(%rcx), %eax
        mov     FP_FEATURES+4(%rcx), %edx
        xrstor64 (%rcx)
        mov     UC_R9(%r8), %r9
        mov     UC_R10(%r8), %r10
        mov     UC_R11(%r8), %r11
        mov     UC_R12(%r8), %r12
        mov     UC_R13(%r8), %r13
        mov     UC_R14(%r8), %r14
        mov     UC_R15(%r8), %r15
        mov     UC_RDI(%r8), %rdi
        mov     UC_RSI(%r8), %rsi
        mov     UC_RBP(%r8), %rbp
        mov     UC_RBX(%r8), %rbx
        mov     UC_RDX(%r8), %rdx
        mov     UC_RAX(%r8), %rax
        mov     UC_RCX(%r8), %rcx
        pop     %r8
        iretq
.Lsigreturn:
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
        je      .Lsigreturn
        push    $TRAP_BIT                       // to come behind rt_sigreturn
        mov     $SIG_BLOCK_, %edi
        mov     %rsp, %rsi
        xor     %edx, %edx
        mov     $SIGSET_BYTES, %r10d
        mov     $SYS_rt_sigprocmask, %eax
        syscall
        pop     %rdi
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

memleax_trap_handler_unblocked_restorer:
        mov     $SYS_rt_sigreturn, %eax
        syscall

memleax_trap_handler_parking:
        syscall
1:      jmp     1b

memleax_trap_handler_way_back:                  // the thread's own stack is not touched
        syscall
        mov     %rax, memleax_trap_handler+WAY_BACK_DATA(%rip)
.Lreturn:
        lea     memleax_trap_handler+RETURN_FRAME(%rip), %rsp
        mov     $SYS_rt_sigreturn, %eax
        syscall

memleax_trap_handler_calls:
        lea     memleax_trap_handler+CALL_TABLE(%rip), %rbx
1:      mov     (%rbx), %rax
        mov     8(%rbx), %rdi
        test    %rax, %rax
        js      2f
        mov     16(%rbx), %rsi
        mov     24(%rbx), %rdx
        mov     32(%rbx), %r10
        mov     40(%rbx), %r8
        mov     48(%rbx), %r9
        syscall
        mov     %rax, CALL_RESULT(%rbx)
        add     $CALL_BYTES, %rbx
        jmp     1b
2:      mov     %edi, %ebp                      // its ids are those of its own PID namespace
        mov     $SYS_getpid, %eax
        syscall
        mov     %eax, %r12d
        mov     $SYS_gettid, %eax
        syscall
        mov     %r12d, %edi
        mov     %eax, %esi
        mov     %ebp, %edx
        mov     $SYS_tgkill, %eax
        syscall
memleax_trap_handler_calls_end:
        jmp     .Lreturn

        .balign 16
memleax_trap_handler_data:

        .section .note.GNU-stack,"",@progbits
