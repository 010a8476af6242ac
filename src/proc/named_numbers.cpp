// SPDX-License-Identifier: GPL-3.0-or-later
#include "named_numbers.hpp"

#include <algorithm>
#include <charconv>
#include <system_error>

#include "proc_file.hpp"

namespace memleax {

namespace {

constexpr std::string_view kBlanks = " \t";

/// Calls use(name, rest) for each line.
template <class Use> void for_each_line(std::string_view text, Use use) {
    while (!text.empty()) {
        const std::size_t end = std::min(text.find('\n'), text.size());
        const std::string_view line = text.substr(0, end);
        const std::size_t name_end = std::min(line.find_first_of(kBlanks), line.size());
        use(line.substr(0, name_end), line.substr(name_end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

} // namespace

std::optional<std::uint64_t> leading_number(std::string_view text) {
    text.remove_prefix(std::min(text.find_first_not_of(kBlanks), text.size()));
    std::uint64_t value = 0;
    const auto end = std::from_chars(text.data(), text.data() + text.size(), value);
    return end.ec == std::errc() ? std::optional(value) : std::nullopt;
}

std::optional<std::uint64_t> try_read_number(const std::string& path) {
    const auto text = try_read_proc_file(path);
    return text ? leading_number(*text) : std::nullopt;
}

std::optional<std::uint64_t> named_number(std::string_view text, std::string_view name) {
    std::optional<std::uint64_t> found;
    for_each_line(text, [&](std::string_view each, std::string_view rest) {
        if (each == name && !found) {
            found = leading_number(rest);
        }
    });
    return found;
}

std::optional<std::uint64_t> named_kib(std::string_view text, std::string_view name) {
    constexpr std::uint64_t kKib = 1024;
    const auto kib = named_number(text, name);
    return kib ? std::optional(*kib * kKib) : std::nullopt;
}

std::optional<std::uint64_t> sum_of_named(std::string_view text, std::string_view prefix) {
    std::optional<std::uint64_t> sum;
    for_each_line(text, [&](std::string_view each, std::string_view rest) {
        const auto value = each.starts_with(prefix) ? leading_number(rest) : std::nullopt;
        if (value) {
            sum = sum.value_or(0) + *value;
        }
    });
    return sum;
}

} // namespace memleax
