// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <csignal>

#include <sys/ptrace.h>

namespace memleax {

/// Every newborn is ours from its first instruction, and exec is told. No EXITKILL: the target
/// survives us. TRACESYSGOOD: stops of our own remote system calls are told from signals.
inline constexpr long kPtraceOptions = PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE |
                                       PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK |
                                       PTRACE_O_TRACEEXEC;
/// The signal of a stop at a system call, with TRACESYSGOOD.
inline constexpr int kSystemCallStop = SIGTRAP | 0x80;

} // namespace memleax
