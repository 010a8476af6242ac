// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/probes/probe_argument.hpp"

#include <algorithm>
#include <charconv>
#include <span>

namespace memleax {

namespace {

constexpr unsigned kBitsOfByte = 8;

/// Up to the next blank that is not within brackets ("8@[sp, 12]" is one); taken off with it.
std::string_view take_word(std::string_view* text) {
    int depth = 0;
    std::size_t end = 0;
    for (; end < text->size(); ++end) {
        const char c = (*text)[end];
        depth += (c == '[' || c == '(' ? 1 : 0) - (c == ']' || c == ')' ? 1 : 0);
        if (c == ' ' && depth <= 0) {
            break;
        }
    }
    const std::string_view word = text->substr(0, end);
    text->remove_prefix(std::min(end + 1, text->size()));
    return word;
}

ProbeArgument parse_argument(std::string_view text) {
    ProbeArgument argument;
    const std::size_t at = text.find('@');
    if (at == std::string_view::npos) { // of old notes: as wide as a register
        argument.operand = arch::parse_probe_operand(text);
        return argument;
    }
    int bytes = 0;
    const char* const end = text.data() + at;
    const auto [stopped, error] = std::from_chars(text.data(), end, bytes);
    if (error != std::errc() || stopped != end) { // "8f": a floating-point number
        return argument;
    }
    argument.is_signed = bytes < 0;
    bytes = bytes < 0 ? -bytes : bytes;
    if (bytes != 1 && bytes != 2 && bytes != 4 && bytes != 8) {
        return argument;
    }
    argument.bytes = static_cast<unsigned>(bytes);
    argument.operand = arch::parse_probe_operand(text.substr(at + 1));
    return argument;
}

/// The lowest bytes of it.
std::int64_t cut(std::uint64_t value, const ProbeArgument& argument) {
    const unsigned spare = kBitsOfByte * (sizeof value - argument.bytes);
    const std::uint64_t high = value << spare;
    return argument.is_signed ? static_cast<std::int64_t>(high) >> spare
                              : static_cast<std::int64_t>(high >> spare);
}

} // namespace

std::vector<ProbeArgument> parse_probe_arguments(std::string_view text) {
    std::vector<ProbeArgument> arguments;
    while (!text.empty()) {
        if (const std::string_view word = take_word(&text); !word.empty()) {
            arguments.push_back(parse_argument(word));
        }
    }
    return arguments;
}

std::optional<std::int64_t> value_of(const ProbeArgument& argument, const arch::Registers& regs,
                                     MemoryReader& memory) {
    if (!argument.operand || !argument.operand->symbol.empty()) {
        return std::nullopt;
    }
    const arch::ProbeOperand& operand = *argument.operand;
    const auto content = [&regs](const std::optional<unsigned>& number) {
        return number ? arch::dwarf_register(regs, *number) : 0;
    };
    switch (operand.kind) {
    case arch::ProbeOperand::Kind::constant:
        return cut(static_cast<std::uint64_t>(operand.value), argument);
    case arch::ProbeOperand::Kind::in_register:
        return cut(content(operand.base) >> operand.base_shift, argument);
    case arch::ProbeOperand::Kind::in_memory:
        break;
    }
    const RemoteAddr from =
        arch::data_address(static_cast<std::uint64_t>(operand.value) + content(operand.base) +
                           (content(operand.index) << operand.index_shift));
    std::uint64_t value = 0;
    const auto bytes = std::as_writable_bytes(std::span(&value, 1)).first(argument.bytes);
    if (memory.try_read(from, bytes) != bytes.size()) {
        return std::nullopt;
    }
    return cut(value, argument);
}

} // namespace memleax
