// SPDX-License-Identifier: GPL-3.0-or-later
// There is no inline engine for this CPU yet: every function keeps its breakpoint.
#include "arch.hpp"

namespace memleax::arch {
inline namespace aarch64 {

Result<DisplacedInstruction>
displace_entry(CodeAddr /*entry*/, std::span<const std::uint8_t> /*code*/, CodeAddr /*slot*/) {
    return Error("not on this CPU");
}

const char* reason_against_entry_jump(CodeAddr /*entry*/, std::span<const std::uint8_t> /*code*/) {
    return "not on this CPU";
}

std::optional<EntryJump> entry_jump(CodeAddr /*entry*/, CodeAddr /*target*/) {
    return std::nullopt;
}

std::array<std::uint8_t, kThunkFunctionAt> thunk_code(CodeAddr /*thunk*/, CodeAddr /*stub*/,
                                                      CodeAddr /*original*/) {
    return {};
}

AgentStub agent_stub() {
    return {};
}

std::uint64_t thread_pointer(const Registers& /*regs*/) {
    return 0;
}

bool agent_knows_threads() {
    return false;
}

} // namespace aarch64
} // namespace memleax::arch
