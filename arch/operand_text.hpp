// SPDX-License-Identifier: GPL-3.0-or-later
/// What the operands of both our CPUs' assemblers have in common. For probe_operand.cpp only.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace memleax::arch {

/// "-24", "0x10", "18446744073709551615"; nothing if that is not all of the text.
inline std::optional<std::int64_t> parse_operand_number(std::string_view text) {
    const bool negative = text.starts_with('-');
    text.remove_prefix(negative ? 1 : 0);
    const bool hexadecimal = text.starts_with("0x");
    text.remove_prefix(hexadecimal ? 2 : 0);
    std::uint64_t number = 0;
    const char* const end = text.data() + text.size();
    const auto [stopped, error] = std::from_chars(text.data(), end, number, hexadecimal ? 16 : 10);
    if (error != std::errc() || stopped != end) {
        return std::nullopt;
    }
    return static_cast<std::int64_t>(negative ? 0 - number : number);
}

/// "name", "name+8", "name-4"; false if that is not all of the text.
inline bool take_symbol(std::string_view text, std::string* symbol, std::int64_t* offset) {
    constexpr std::string_view kOfNames = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                          "0123456789_.$";
    const std::size_t length = text.find_first_not_of(kOfNames);
    *symbol = text.substr(0, length);
    if (length == std::string_view::npos) {
        return true;
    }
    std::string_view rest = text.substr(length);
    rest.remove_prefix(rest.starts_with('+') ? 1 : 0);
    const auto number = parse_operand_number(rest);
    *offset = number.value_or(0);
    return number.has_value() && !symbol->empty();
}

} // namespace memleax::arch
