// SPDX-License-Identifier: GPL-3.0-or-later
/// The values of options, read strictly: CLI11's own conversions take -1 for 2^64-1 and 010 for 8.
/// `option` is the name for the message.
#pragma once

#include <charconv>
#include <concepts>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <vector>

#include <fmt/format.h>

namespace memleax {

/// Wrong usage, in words for the user.
class UsageError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// All of `text` as a number, or why not.
template <class T> std::errc parse_number(const std::string& text, T& value) {
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, value);
    return error == std::errc() && end != last ? std::errc::invalid_argument : error;
}

/// In seconds: "90", "0.5", "30s", "5m", "2h", "1d", "500ms". Nothing if it is none, or not above
/// 0.
std::optional<double> duration(const std::string& text);
/// The same, within what a session can last.
double parse_duration(const std::string& option, const std::string& text);
int parse_pid(const std::string& text);
/// What ProcessName takes.
std::string parse_process_name(const std::string& option, const std::string& text);
/// The name of a file: anything but "".
std::string parse_file(const std::string& option, const std::string& text);

/// A line for the prompt, whose command exists.
std::string parse_command(const std::string& option, const std::string& text);

template <std::integral T>
T parse_whole(const std::string& option, const std::string& text, T min, T max) {
    T value = 0;
    if (parse_number(text, value) != std::errc() || value < min || value > max) {
        throw UsageError(
            fmt::format("{}: '{}' is not a whole number from {} to {}", option, text, min, max));
    }
    return value;
}

template <class T> using Names = std::map<std::string, T>;

template <class T>
T parse_name(const std::string& option, const std::string& text, const Names<T>& names) {
    const auto it = names.find(text);
    if (it != names.end()) {
        return it->second;
    }
    std::string all;
    for (const auto& [name, value] : names) {
        all += (all.empty() ? "" : ", ") + name;
    }
    throw UsageError(fmt::format("{}: '{}' is none of {}", option, text, all));
}

/// The value is one of `names`, which completions offer.
template <class T> struct TakeName {
    T& target;
    const Names<T>& names;

    void operator()(const std::string& option, const std::string& text) const {
        target = parse_name(option, text, names);
    }
    [[nodiscard]] std::vector<std::string> choices() const {
        std::vector<std::string> keys;
        for (const auto& [name, value] : names) {
            keys.push_back(name);
        }
        return keys;
    }
};

} // namespace memleax
