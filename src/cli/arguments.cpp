// SPDX-License-Identifier: GPL-3.0-or-later
#include "arguments.hpp"

#include <charconv>

#include <fmt/format.h>

#include "option_values.hpp"

namespace memleax {

std::vector<std::string> split_words(std::string_view line) {
    std::vector<std::string> words;
    std::string word;
    bool open = false; // a word has begun; it may be empty, as ''
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (quote != 0 && c == quote) {
            quote = 0;
        } else if (c == '\\' && quote != '\'' && i + 1 < line.size()) {
            word += line[++i];
            open = true;
        } else if (quote != 0) {
            word += c;
        } else if (c == '\'' || c == '"') {
            quote = c;
            open = true;
        } else if (c == ' ' || c == '\t') {
            if (open) {
                words.push_back(std::exchange(word, {}));
            }
            open = false;
        } else {
            word += c;
            open = true;
        }
    }
    if (quote != 0) {
        throw CommandError(fmt::format("the quote {} is not closed", quote));
    }
    if (open) {
        words.push_back(word);
    }
    return words;
}

PipedLine split_pipe(const std::string& line) {
    char quote = 0;
    for (std::size_t i = 0; i < line.size(); ++i) {
        const char c = line[i];
        if (c == '\\' && quote != '\'') {
            ++i;
        } else if (quote != 0) {
            quote = c == quote ? '\0' : quote;
        } else if (c == '\'' || c == '"') {
            quote = c;
        } else if (c == '|') {
            return {line.substr(0, i), line.substr(i + 1)};
        }
    }
    return {line, std::nullopt};
}

CommandError Arguments::wrong(const std::string& message) const {
    return CommandError(fmt::format("{}; usage: {}", message, usage_));
}

std::string Arguments::word(const char* what) {
    if (empty()) {
        throw wrong(fmt::format("{} is missing", what));
    }
    return words_[next_++];
}

std::uint64_t Arguments::whole(const char* what, std::uint64_t min, std::uint64_t max) {
    const std::string text = word(what);
    std::uint64_t value = 0;
    if (parse_number(text, value) != std::errc() || value < min || value > max) {
        throw wrong(fmt::format("'{}' is not {} ({})", text, what,
                                max == UINT64_MAX
                                    ? fmt::format("a whole number from {} on", min)
                                    : fmt::format("a whole number from {} to {}", min, max)));
    }
    return value;
}

double Arguments::seconds(const char* what) {
    try {
        return parse_duration(what, word(what));
    } catch (const UsageError& error) {
        throw wrong(error.what());
    }
}

RemoteAddr Arguments::address() {
    const std::string text = word("the address");
    std::string_view digits = text;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
        digits.remove_prefix(2);
    }
    constexpr int kHex = 16;
    std::uint64_t value = 0;
    const auto end = std::from_chars(digits.data(), digits.data() + digits.size(), value, kHex);
    if (end.ec != std::errc() || end.ptr != digits.data() + digits.size()) {
        throw wrong(fmt::format("'{}' is not an address (hexadecimal, as 0x7f12345678)", text));
    }
    return RemoteAddr(value);
}

bool Arguments::take(std::string_view word) {
    if (empty() || peek() != word) {
        return false;
    }
    ++next_;
    return true;
}

void Arguments::done() const {
    if (!empty()) {
        throw wrong(fmt::format("'{}' is too much", peek()));
    }
}

} // namespace memleax
