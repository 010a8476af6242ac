// SPDX-License-Identifier: GPL-3.0-or-later
// Operands as GCC and clang write them for GNU as: "x0", "[sp, 12]", "[x1, x2, lsl 3]", "5".
#include <algorithm>
#include <array>
#include <vector>

#include "operand_text.hpp"
#include "probe_operand.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

constexpr std::string_view kBlanks = " \t";

std::string_view trimmed(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    return text.substr(0, text.find_last_not_of(kBlanks) + 1);
}

/// "x0", "w0", "sp"; with `whole` of 64 bits only. 31 is the stack pointer's number.
std::optional<unsigned> parse_register(std::string_view text, bool whole) {
    constexpr std::int64_t kLast = 30;
    if (text == "sp" || (!whole && text == "wsp")) {
        return kDwarfStackPointer;
    }
    if (!text.starts_with('x') && (whole || !text.starts_with('w'))) {
        return std::nullopt;
    }
    const auto number = parse_operand_number(text.substr(1));
    return number && *number >= 0 && *number <= kLast
               ? std::optional(static_cast<unsigned>(*number))
               : std::nullopt;
}

/// "#12" and "12" are the same.
std::optional<std::int64_t> parse_number(std::string_view text) {
    text.remove_prefix(text.starts_with('#') ? 1 : 0);
    return parse_operand_number(text);
}

/// What stands in the brackets.
std::optional<ProbeOperand> parse_memory(std::string_view text) {
    ProbeOperand operand{.kind = ProbeOperand::Kind::in_memory};
    std::vector<std::string_view> parts;
    for (std::size_t comma = 0; comma != std::string_view::npos;) {
        comma = text.find(',');
        parts.push_back(trimmed(text.substr(0, comma)));
        text.remove_prefix(comma == std::string_view::npos ? text.size() : comma + 1);
    }
    operand.base = parse_register(parts[0], true);
    if (!operand.base || parts.size() > 3) {
        return std::nullopt;
    }
    if (parts.size() == 1) {
        return operand;
    }
    if (const auto number = parse_number(parts[1])) {
        operand.value = *number;
        return parts.size() == 2 ? std::optional(std::move(operand)) : std::nullopt;
    }
    operand.index = parse_register(parts[1], true); // not "w2, sxtw 2"
    if (!operand.index) {
        return std::nullopt;
    }
    if (parts.size() == 3) {
        constexpr std::string_view kShift = "lsl ";
        constexpr std::int64_t kMostShift = 3;
        const auto shift = parts[2].starts_with(kShift)
                               ? parse_number(trimmed(parts[2].substr(kShift.size())))
                               : std::nullopt;
        if (!shift || *shift < 0 || *shift > kMostShift) {
            return std::nullopt;
        }
        operand.index_shift = static_cast<unsigned>(*shift);
    }
    return operand;
}

} // namespace

std::optional<ProbeOperand> parse_probe_operand(std::string_view text) {
    text = trimmed(text);
    if (text.starts_with('[')) {
        return text.ends_with(']') ? parse_memory(text.substr(1, text.size() - 2)) : std::nullopt;
    }
    if (text == "xzr" || text == "wzr") {
        return ProbeOperand{};
    }
    if (const auto number = parse_number(text)) {
        return ProbeOperand{.value = *number};
    }
    if (const auto base = parse_register(text, false)) {
        return ProbeOperand{.kind = ProbeOperand::Kind::in_register, .base = base};
    }
    return std::nullopt;
}

bool is_probe_place(std::span<const std::uint8_t> code) {
    constexpr std::array<std::uint8_t, 4> kNop{0x1f, 0x20, 0x03, 0xd5};
    return code.size() >= kNop.size() && std::equal(kNop.begin(), kNop.end(), code.begin());
}

} // namespace aarch64
} // namespace memleax::arch
