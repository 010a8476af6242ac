// SPDX-License-Identifier: GPL-3.0-or-later
// Operands as GNU as has them in AT&T syntax (info as, "i386-Memory").
#include <algorithm>
#include <array>
#include <bit>

#include "operand_text.hpp"
#include "probe_operand.hpp"

namespace memleax::arch {
inline namespace x86_64 {

namespace {

/// By DWARF's numbers: of 64, 32, 16 and 8 bits.
constexpr std::array<std::array<std::string_view, 4>, 16> kRegisters{{
    {"rax", "eax", "ax", "al"},
    {"rdx", "edx", "dx", "dl"},
    {"rcx", "ecx", "cx", "cl"},
    {"rbx", "ebx", "bx", "bl"},
    {"rsi", "esi", "si", "sil"},
    {"rdi", "edi", "di", "dil"},
    {"rbp", "ebp", "bp", "bpl"},
    {"rsp", "esp", "sp", "spl"},
    {"r8", "r8d", "r8w", "r8b"},
    {"r9", "r9d", "r9w", "r9b"},
    {"r10", "r10d", "r10w", "r10b"},
    {"r11", "r11d", "r11w", "r11b"},
    {"r12", "r12d", "r12w", "r12b"},
    {"r13", "r13d", "r13w", "r13b"},
    {"r14", "r14d", "r14w", "r14b"},
    {"r15", "r15d", "r15w", "r15b"},
}};
/// The second bytes of rax, rdx, rcx and rbx.
constexpr std::array<std::string_view, 4> kSecondBytes{"ah", "dh", "ch", "bh"};
constexpr unsigned kSecondByte = 8;

/// "%rax"; with `whole` of 64 bits only.
std::optional<unsigned> parse_register(std::string_view text, bool whole) {
    if (!text.starts_with('%')) {
        return std::nullopt;
    }
    text.remove_prefix(1);
    for (unsigned i = 0; i < kRegisters.size(); ++i) {
        const auto& names = kRegisters.at(i);
        const auto* const end = whole ? names.begin() + 1 : names.end();
        if (std::find(names.begin(), end, text) != end) {
            return i;
        }
    }
    return std::nullopt;
}

/// What stands in the brackets: "%rbp", "%rax,%rbx,4", ",%rbx,8", "%rip"
bool parse_registers(std::string_view text, ProbeOperand* operand) {
    if (text == "%rip") { // the assembler has made the symbol's address relative to it
        return !operand->symbol.empty();
    }
    const std::size_t comma = text.find(',');
    const std::string_view base = text.substr(0, comma);
    operand->base = parse_register(base, true);
    if (!base.empty() && !operand->base) {
        return false;
    }
    if (comma == std::string_view::npos) {
        return operand->base.has_value();
    }
    text.remove_prefix(comma + 1);
    const std::size_t second = text.find(',');
    operand->index = parse_register(text.substr(0, second), true);
    if (!operand->index) {
        return false;
    }
    const auto scale = second == std::string_view::npos
                           ? std::optional<std::int64_t>(1)
                           : parse_operand_number(text.substr(second + 1));
    if (!scale || (*scale != 1 && *scale != 2 && *scale != 4 && *scale != 8)) {
        return false;
    }
    operand->index_shift =
        static_cast<unsigned>(std::countr_zero(static_cast<std::uint64_t>(*scale)));
    return true;
}

std::optional<ProbeOperand> parse_memory(std::string_view text) {
    ProbeOperand operand{.kind = ProbeOperand::Kind::in_memory};
    const std::size_t bracket = text.find('(');
    const std::string_view offset = text.substr(0, bracket);
    if (const auto number = parse_operand_number(offset)) {
        operand.value = *number;
    } else if (!offset.empty() && !take_symbol(offset, &operand.symbol, &operand.value)) {
        return std::nullopt;
    }
    if (bracket == std::string_view::npos) { // an address of its own
        return text.empty() ? std::nullopt : std::optional(std::move(operand));
    }
    if (!text.ends_with(')') ||
        !parse_registers(text.substr(bracket + 1, text.size() - bracket - 2), &operand)) {
        return std::nullopt;
    }
    return operand;
}

} // namespace

std::optional<ProbeOperand> parse_probe_operand(std::string_view text) {
    if (text.starts_with('$')) {
        const auto number = parse_operand_number(text.substr(1));
        return number ? std::optional(ProbeOperand{.value = *number}) : std::nullopt;
    }
    if (!text.starts_with('%')) {
        return parse_memory(text);
    }
    ProbeOperand operand{.kind = ProbeOperand::Kind::in_register};
    const auto* const second = std::find(kSecondBytes.begin(), kSecondBytes.end(), text.substr(1));
    if (second != kSecondBytes.end()) {
        operand.base = static_cast<unsigned>(second - kSecondBytes.begin());
        operand.base_shift = kSecondByte;
    } else {
        operand.base = parse_register(text, false);
    }
    return operand.base ? std::optional(std::move(operand)) : std::nullopt;
}

bool is_probe_place(std::span<const std::uint8_t> code) {
    constexpr std::uint8_t kNop = 0x90;
    return !code.empty() && code[0] == kNop;
}

} // namespace x86_64
} // namespace memleax::arch
