// SPDX-License-Identifier: GPL-3.0-or-later
#include "option_values.hpp"

#include <cmath>
#include <string_view>
#include <utility>

#include "command.hpp"
#include "memleax/proc/process_list.hpp"

namespace memleax {

namespace {
/// Longer than any session; keeps nanoseconds within 64 bits.
constexpr double kMaxSeconds = 1e9;
} // namespace

std::optional<double> duration(const std::string& text) {
    static constexpr std::pair<std::string_view, double> kUnits[] = {
        {"", 1}, {"s", 1}, {"ms", 1e-3}, {"m", 60}, {"h", 3600}, {"d", 86400}};
    double number = 0;
    const char* const last = text.data() + text.size();
    const auto [end, error] = std::from_chars(text.data(), last, number);
    // Not "number <= 0", which a NaN passes.
    if (error != std::errc() || !(number > 0) || std::isinf(number)) {
        return std::nullopt;
    }
    for (const auto& [unit, unit_s] : kUnits) {
        if (unit == std::string_view(end, static_cast<std::size_t>(last - end))) {
            return number * unit_s;
        }
    }
    return std::nullopt;
}

double parse_duration(const std::string& option, const std::string& text) {
    const std::optional<double> seconds = duration(text);
    if (!seconds || !(*seconds > 0)) { // 1e-320ms
        throw UsageError(
            fmt::format("{}: '{}' is not a time above 0 (as 30, 30s, 5m, 2h)", option, text));
    }
    if (*seconds > kMaxSeconds) {
        throw UsageError(fmt::format("{}: {} is too long", option, text));
    }
    return *seconds;
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

std::string parse_process_name(const std::string& option, const std::string& text) {
    if (const auto name = ProcessName::parse(text); !name) {
        throw UsageError(fmt::format("{}: {}", option, name.error().message()));
    }
    return text;
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
