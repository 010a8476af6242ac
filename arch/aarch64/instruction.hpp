// SPDX-License-Identifier: GPL-3.0-or-later
/// One decoded instruction, as far as moving it elsewhere asks: in which ways it depends on its own
/// address.
#pragma once

#include <cstdint>
#include <span>

#include "arch.hpp"

namespace memleax::arch {
inline namespace aarch64 {

/// What it is, by what becomes of it in a slot.
enum class Kind : std::uint8_t {
    plain,         ///< does not depend on its address, and the next instruction follows
    elsewhere,     ///< nor does it, and the next one never follows: ret, br x0
    jump,          ///< b to `target`
    branch,        ///< b.cond, cbz, cbnz, tbz, tbnz: `target` or the next instruction
    call,          ///< bl to `target`
    indirect_call, ///< blr, blraa, ...
    address,       ///< adr, adrp: x[`rt`] = `target`
    load,          ///< ldr, ldrsw of a general register from `target`
    load_vector,   ///< ldr of s, d or q from `target`
    prefetch       ///< prfm of `target`
};

struct Instruction {
    std::uint32_t word = 0;
    Kind kind = Kind::plain;
    CodeAddr target;
    unsigned rt = 0;
};

inline constexpr std::uint8_t kInstructionBytes = 4;

/// Decodes the first instruction of `bytes`, which stands at `from`. Fails, with the reason, for
/// what is no known instruction, and for those that cannot be executed elsewhere (svc is restarted
/// at its own address, brk has it in its signal, ...).
[[nodiscard]] Result<Instruction> decode_movable(CodeAddr from,
                                                 std::span<const std::uint8_t> bytes);

} // namespace aarch64
} // namespace memleax::arch
