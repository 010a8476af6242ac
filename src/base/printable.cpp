// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/printable.hpp"

#include <cstddef>
#include <cstdint>

namespace memleax {

namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";

/// Bytes of the well-formed sequence that `text` begins with (Unicode, table 3-7); 0 if there is
/// none: no overlong forms, no surrogates, nothing above U+10FFFF.
std::size_t sequence_length(std::string_view text) {
    const auto byte = [text](std::size_t i) {
        return i < text.size() ? static_cast<std::uint8_t>(text[i]) : std::uint8_t{0};
    };
    const auto follows = [byte](std::size_t i, unsigned low = 0x80, unsigned high = 0xbf) {
        return byte(i) >= low && byte(i) <= high;
    };
    const unsigned first = byte(0);
    if (first < 0x80) {
        return 1;
    }
    if (first >= 0xc2 && first <= 0xdf) {
        return follows(1) ? 2 : 0;
    }
    if (first >= 0xe0 && first <= 0xef) {
        const bool second = follows(1, first == 0xe0 ? 0xa0 : 0x80, first == 0xed ? 0x9f : 0xbf);
        return second && follows(2) ? 3 : 0;
    }
    if (first >= 0xf0 && first <= 0xf4) {
        const bool second = follows(1, first == 0xf0 ? 0x90 : 0x80, first == 0xf4 ? 0x8f : 0xbf);
        return second && follows(2) && follows(3) ? 4 : 0;
    }
    return 0;
}

/// The character of a well-formed sequence.
char32_t decode(std::string_view sequence) {
    const auto first = static_cast<std::uint8_t>(sequence[0]);
    if (sequence.size() == 1) {
        return first;
    }
    char32_t character = first & (0x7fU >> sequence.size());
    for (const char next : sequence.substr(1)) {
        character = character << 6 | (static_cast<std::uint8_t>(next) & 0x3fU);
    }
    return character;
}

bool is_obeyed(char32_t c) {
    const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
    const bool separator = c == 0x2028 || c == 0x2029;
    const bool direction = c == 0x061c || c == 0x200e || c == 0x200f ||
                           (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);
    return control || separator || direction;
}

/// `text` with what `replaced` gives in place of each character; U+FFFD for each byte that is none.
template <class Replaced> std::string each_sequence(std::string_view text, Replaced replaced) {
    std::string result;
    result.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = sequence_length(text);
        result += length == 0 ? kReplacement : replaced(text.substr(0, length));
        text.remove_prefix(length == 0 ? 1 : length);
    }
    return result;
}

} // namespace

std::string valid_utf8(std::string_view text) {
    return each_sequence(text, [](std::string_view sequence) { return sequence; });
}

std::string printable(std::string_view text) {
    return each_sequence(text, [](std::string_view sequence) {
        return is_obeyed(decode(sequence)) ? std::string_view("?") : sequence;
    });
}

} // namespace memleax
