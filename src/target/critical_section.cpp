// SPDX-License-Identifier: GPL-3.0-or-later
#include "critical_section.hpp"

#include <cstddef>
#include <cstdint>

#include <linux/rseq.h>
#include <sys/ptrace.h>

namespace memleax {

void abort_critical_section(Tid tid, RemoteMemory& memory, arch::Registers* regs) {
    __ptrace_rseq_configuration area{};
    if (ptrace(PTRACE_GET_RSEQ_CONFIGURATION, tid.value(), sizeof area, &area) <
            static_cast<long>(sizeof area.rseq_abi_pointer) ||
        area.rseq_abi_pointer == 0) {
        return;
    }
    const RemoteAddr section_at(area.rseq_abi_pointer + offsetof(struct rseq, rseq_cs));
    const auto section_address = memory.try_read_object<std::uint64_t>(section_at);
    if (!section_address || *section_address == 0) {
        return;
    }
    const auto section = memory.try_read_object<struct rseq_cs>(RemoteAddr(*section_address));
    if (section && arch::pc(*regs).value() - section->start_ip < section->post_commit_offset) {
        arch::set_pc(*regs, CodeAddr(section->abort_ip));
    }
}

} // namespace memleax
