// SPDX-License-Identifier: GPL-3.0-or-later
/// How to get from one frame to its caller, for one pc, as plain data: what nearly every row of
/// call frame information comes down to.
///
// clang-format off
/// A frame's state is (pc, sp, fp). `regular` rules are the equations
///
///     CFA       = sp + cfa_offset          cfa_base == sp
///               = fp + cfa_offset          cfa_base == fp
///               = *(fp + cfa_offset)       cfa_base == at_fp (dynamic stack realignment)
///     caller fp = fp                       fp_place == unchanged
///               = *(CFA + fp_offset)       fp_place == at_cfa
///               = *(fp + fp_offset)        fp_place == at_fp
///     caller pc = *(CFA + ra_offset)       ra_place == at_cfa
///               = the link register        ra_place == in_register: of the innermost frame, or of one
///                                          that a signal interrupted
///     caller sp = CFA
// clang-format on
#pragma once

#include <cstdint>
#include <type_traits>

#include "memleax/elf/cfi.hpp"

namespace memleax {

struct Rule {
    enum class Kind : std::uint8_t {
        not_code,      ///< the pc is in no executable memory; what an empty cache entry says
        none,          ///< code without tables, and nothing else helps
        regular,       ///< the equations above
        own,           ///< likewise, of a frame that we have put there
        outermost,     ///< the thread's first function: there is no caller
        signal_frame,  ///< the kernel's frame: all registers are in it (arch.hpp)
        frame_pointer, ///< code without tables: as fp says, if what it says is plausible
        slow           ///< the row needs more registers than (pc, sp, fp), or an expression
    };
    enum class CfaBase : std::uint8_t { sp, fp, at_fp };
    enum class FpPlace : std::uint8_t { unchanged, at_cfa, at_fp };
    enum class RaPlace : std::uint8_t { at_cfa, in_register };

    Kind kind = Kind::not_code;
    CfaBase cfa_base = CfaBase::sp;
    FpPlace fp_place = FpPlace::unchanged;
    RaPlace ra_place = RaPlace::at_cfa;
    std::int32_t cfa_offset = 0;
    std::int32_t fp_offset = 0;
    std::int32_t ra_offset = 0;

    static constexpr Rule of(Kind kind) {
        Rule rule;
        rule.kind = kind;
        return rule;
    }
    friend constexpr bool operator==(const Rule&, const Rule&) = default;
};

// The inline engine is to run these within the target, and a cache entry is to fit half a line.
static_assert(sizeof(Rule) <= 16 && std::is_trivially_copyable_v<Rule>);

/// The rule that says the same as this row: `regular` or `outermost` where it can, else `slow`.
[[nodiscard]] Rule rule_from_row(const CfiRow& row);
/// The equations of a frame whose frame pointer is set up: it points to the caller's, and the
/// return address is behind that.
[[nodiscard]] Rule rule_by_frame_pointer(Rule::Kind kind);

} // namespace memleax
