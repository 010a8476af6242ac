// SPDX-License-Identifier: GPL-3.0-or-later
#include "option_values.hpp"

#include <cmath>

#include "command.hpp"

namespace memleax {

namespace {
/// Longer than any session; keeps nanoseconds within 64 bits.
constexpr double kMaxSeconds = 1e9;
} // namespace

double parse_seconds(const std::string& option, const std::string& text) {
    double value = 0;
    // Not "value <= 0", which a NaN passes.
    if (parse_number(text, value) != std::errc() || !(value > 0) || std::isinf(value)) {
        throw UsageError(fmt::format("{}: '{}' is not a number of seconds above 0", option, text));
    }
    if (value > kMaxSeconds) {
        throw UsageError(fmt::format("{}: {} seconds are too long", option, text));
    }
    return value;
}

int parse_pid(const std::string& text) {
    int pid = 0;
    const std::errc error = parse_number(text, pid);
    if (error == std::errc::result_out_of_range) {
        throw UsageError(fmt::format("'{}' is too large for a process id", text));
    }
    if (error != std::errc() || pid <= 0) {
        throw UsageError(fmt::format("'{}' is not a process id (a number above 0)", text));
    }
    return pid;
}

std::string parse_file(const std::string& option, const std::string& text) {
    if (text.empty()) { // an unset variable of a script, hardly what is meant
        throw UsageError(fmt::format("{}: the file's name is empty", option));
    }
    return text;
}

std::string parse_command(const std::string& option, const std::string& text) {
    const std::string word = command_word(text);
    if (word.empty()) {
        throw UsageError(fmt::format("{}: '{}' is no command", option, text));
    }
    try {
        (void)find_command(word);
    } catch (const CommandError& wrong) {
        throw UsageError(fmt::format("{}: {}", option, wrong.what()));
    }
    return text;
}

} // namespace memleax
