// SPDX-License-Identifier: GPL-3.0-or-later
/// Files of lines "NAME VALUE", as /proc/vmstat, /proc/meminfo and memory.events are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace memleax {

/// At the begin of the text, after blanks.
std::optional<std::uint64_t> leading_number(std::string_view text);

/// At the begin of this file; nothing if it cannot be read, or has a word ("max").
std::optional<std::uint64_t> try_read_number(const std::string& path);

/// Of the line with exactly this name, colon included.
std::optional<std::uint64_t> named_number(std::string_view text, std::string_view name);

/// The same in bytes: "MemFree:    12 kB".
std::optional<std::uint64_t> named_kib(std::string_view text, std::string_view name);

/// Of all lines whose name begins so.
std::optional<std::uint64_t> sum_of_named(std::string_view text, std::string_view prefix);

} // namespace memleax
