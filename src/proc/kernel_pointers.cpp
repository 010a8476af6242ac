// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/kernel_pointers.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "descriptors.hpp"
#include "memleax/proc/living_thread.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

/// The hexadecimal numbers that follow `before`, of the lines that begin so.
std::vector<std::uint64_t> numbers_after(std::string_view text, std::string_view begin,
                                         std::string_view before) {
    std::vector<std::uint64_t> result;
    while (!text.empty()) {
        const std::string_view line = text.substr(0, text.find('\n'));
        text.remove_prefix(std::min(line.size() + 1, text.size()));
        const std::size_t at = line.find(before);
        if (!line.starts_with(begin) || at == std::string_view::npos) {
            continue;
        }
        std::string_view digits = line.substr(at + before.size());
        digits.remove_prefix(std::min(digits.find_first_not_of(' '), digits.size()));
        if (digits.starts_with("0x")) {
            digits.remove_prefix(2);
        }
        std::uint64_t value = 0;
        constexpr int kHex = 16;
        if (std::from_chars(digits.data(), digits.data() + digits.size(), value, kHex).ec ==
            std::errc()) {
            result.push_back(value);
        }
    }
    return result;
}

} // namespace

std::vector<std::uint64_t> parse_epoll_data(std::string_view fdinfo) {
    return numbers_after(fdinfo, "tfd:", " data:");
}

std::vector<std::uint64_t> parse_timer_values(std::string_view timers) {
    return numbers_after(timers, "signal:", "/");
}

std::vector<std::uint64_t> read_kernel_pointers(Tid pid) {
    const std::string folder = fmt::format("/proc/{}", living_thread(pid).value());
    std::vector<std::uint64_t> result;
    if (const auto timers = try_read_proc_file(folder + "/timers")) {
        result = parse_timer_values(*timers);
    }
    // Of those that can be listed.
    (void)check_descriptors(pid, [&result](const std::string& name, const std::string& info) {
        if (name == "anon_inode:[eventpoll]") {
            const auto data = parse_epoll_data(try_read_proc_file(info).value_or(""));
            result.insert(result.end(), data.begin(), data.end());
        }
        return Result<void>();
    });
    return result;
}

} // namespace memleax
