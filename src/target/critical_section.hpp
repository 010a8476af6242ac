// SPDX-License-Identifier: GPL-3.0-or-later
/// Restartable sequences (rseq(2), Linux 4.18; kernel/rseq.c).
#pragma once

#include "arch.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

/// If a stopped thread is within a critical section, its registers lead to where that is aborted
/// from then on, as the kernel has it for each interruption. To be asked before the thread goes
/// elsewhere for us: the kernel takes that for having left the section, and the thread would come
/// back to its middle and commit, though others have been in such a section meanwhile. Before
/// Linux 5.13 nobody can ask for it, and nothing happens.
void abort_critical_section(Tid tid, RemoteMemory& memory, arch::Registers* regs);

} // namespace memleax
