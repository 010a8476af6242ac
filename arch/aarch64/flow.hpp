// SPDX-License-Identifier: GPL-3.0-or-later
/// The group of branches, exceptions and system instructions: the ones that change the flow of
/// control.
#pragma once

#include "instruction.hpp"

namespace memleax::arch {
inline namespace aarch64 {

/// Is it in that group (Arm ARM, C4.1.65)?
[[nodiscard]] bool is_in_flow_group(std::uint32_t word);

/// Is it in that group, neither known as a branch nor known not to be one (as compare and branch,
/// FEAT_CMPBR)?
[[nodiscard]] bool is_unknown_branch(std::uint32_t word);

/// Sets kind and target of an instruction of the group, whose word is set and which stands at
/// `from`. Null, or the reason why it must stay where it is.
[[nodiscard]] const char* read_flow(Instruction& instruction, CodeAddr from);

} // namespace aarch64
} // namespace memleax::arch
