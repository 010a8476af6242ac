// SPDX-License-Identifier: GPL-3.0-or-later
/// The arguments of a SystemTap probe: from the note's text to their values.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/proc/memory.hpp"
#include "probe_operand.hpp"

namespace memleax {

/// "-4@%edi": N@OPERAND, where N is the number of bytes, negative for a signed one.
struct ProbeArgument {
    unsigned bytes = 8; ///< 1, 2, 4 or 8
    bool is_signed = false;
    /// Nothing: it is not understood, or no integer.
    std::optional<arch::ProbeOperand> operand;
    friend bool operator==(const ProbeArgument&, const ProbeArgument&) = default;
};

/// "-4@%edi 8@[sp, 12]": there is one for each in the text, understood or not.
std::vector<ProbeArgument> parse_probe_arguments(std::string_view text);

/// Its value where a thread stands at the probe with these registers. An operand's symbol has been
/// replaced by its address by then. Nothing if it is not understood, or cannot be read.
std::optional<std::int64_t> value_of(const ProbeArgument& argument, const arch::Registers& regs,
                                     MemoryReader& memory);

} // namespace memleax
