// SPDX-License-Identifier: GPL-3.0-or-later
/// One decoded instruction, as far as moving it elsewhere asks: where its parts are, and in which
/// ways it depends on its own address.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "arch.hpp"

namespace memleax::arch {
inline namespace x86_64 {

/// Where control goes after it.
enum class Flow : std::uint8_t {
    next,          ///< the next instruction
    elsewhere,     ///< never the next one, and without a word about the own address: ret, jmp *%rax
    jump,          ///< jmp to `target`
    branch,        ///< jcc, loop, jrcxz: `target` or the next instruction
    call,          ///< call to `target`
    indirect_call, ///< call through the register or memory of the ModRM byte
};

struct Instruction {
    std::array<std::uint8_t, kMaxInstructionBytes> bytes{};
    std::uint8_t length = 0;
    std::uint8_t opcode_at = 0; ///< offset of the opcode behind legacy prefixes and REX
    Flow flow = Flow::next;
    CodeAddr target; ///< of jump, branch and call
    /// Offset of the disp32 of a RIP-relative operand, and the address that it means.
    std::optional<std::uint8_t> rip_displacement_at;
    CodeAddr rip_operand;
    /// It reads or writes memory by a pointer, and not by rsp, rip or fs, nor by rbp, which
    /// at a function's entry no function knows anything of.
    bool may_fault = false;

    [[nodiscard]] std::span<const std::uint8_t> code() const {
        return std::span(bytes).first(length);
    }
};

/// Decodes the first instruction of `bytes`, which stands at `from`. Fails, with the reason, for
/// what is no known instruction, and for those whose effect depends on their own address in a way
/// that cannot be kept up elsewhere (syscall leaves it in rcx, int3 in the signal frame, ...).
[[nodiscard]] Result<Instruction> decode_movable(CodeAddr from,
                                                 std::span<const std::uint8_t> bytes);

/// Its bytes at `place`: a RIP-relative operand means the same there. Fails if that is out of
/// reach.
[[nodiscard]] Result<Instruction> moved_to(Instruction instruction, CodeAddr place);

/// Of the first instruction of `bytes`, whatever it is; 0 if that is not known.
[[nodiscard]] std::size_t instruction_length(CodeAddr from, std::span<const std::uint8_t> bytes);

} // namespace x86_64
} // namespace memleax::arch
