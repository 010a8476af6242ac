// SPDX-License-Identifier: GPL-3.0-or-later
/// The arguments of SystemTap's probes, as this CPU's assembler has them. arch.hpp's contract, for
/// those few who need this part.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "arch.hpp"

namespace memleax::arch {
inline namespace MEMLEAX_CPU {

/// Where such an argument is, as the compiler wrote it for the assembler: "%edi", "-24(%rbp)",
/// "counter(%rip)", "$5"; arm64: "w0", "[sp, 12]", "5".
struct ProbeOperand {
    enum class Kind : std::uint8_t { constant, in_register, in_memory };
    Kind kind = Kind::constant;
    std::int64_t value = 0;             ///< the constant, or what is added to an address
    std::optional<unsigned> base = {};  ///< a register, by DWARF's number
    std::optional<unsigned> index = {}; ///< likewise
    unsigned index_shift = 0;           ///< how far the index is shifted to the left
    unsigned base_shift = 0; ///< in_register: how far to the right, before it is cut (%ah)
    std::string symbol = {}; ///< a variable whose address is added; empty: none
    friend bool operator==(const ProbeOperand&, const ProbeOperand&) = default;
};
/// Nothing for what is not understood, as a vector register.
[[nodiscard]] std::optional<ProbeOperand> parse_probe_operand(std::string_view text);
/// Does code begin with the no-op that sys/sdt.h puts at a probe?
[[nodiscard]] bool is_probe_place(std::span<const std::uint8_t> code);

} // namespace MEMLEAX_CPU
} // namespace memleax::arch
