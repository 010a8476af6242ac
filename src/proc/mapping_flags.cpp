// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/mapping_flags.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include <fmt/format.h>

#include "memleax/proc/living_thread.hpp"
#include "proc_file.hpp"

namespace memleax {

namespace {

/// "7f0000000000-7f0000001000 rw-p ...": a mapping's first line.
std::optional<AddrRange> range_of(std::string_view line) {
    AddrRange range;
    const char* const end = line.data() + line.size();
    const auto begins = std::from_chars(line.data(), end, range.begin, 16);
    if (begins.ec != std::errc{} || begins.ptr == end || *begins.ptr != '-') {
        return std::nullopt;
    }
    const auto ends = std::from_chars(begins.ptr + 1, end, range.end, 16);
    return ends.ec == std::errc{} ? std::optional(range) : std::nullopt;
}

std::optional<std::string> try_read_smaps(Tid pid) {
    auto text = try_read_proc_file(fmt::format("/proc/{}/smaps", living_thread(pid).value()));
    return text && !text->empty() ? std::move(text) : std::nullopt;
}

} // namespace

std::optional<std::vector<AddrRange>> parse_flagged_mappings(std::string_view smaps,
                                                             std::string_view flag) {
    static constexpr std::string_view kFlags = "VmFlags:";
    std::vector<AddrRange> result;
    std::optional<AddrRange> mapping; // whose flags have not come
    while (!smaps.empty()) {
        const std::size_t length = std::min(smaps.find('\n'), smaps.size());
        const std::string_view line = smaps.substr(0, length);
        smaps.remove_prefix(std::min(length + 1, smaps.size()));
        if (line.starts_with(kFlags)) {
            if (mapping && line.find(fmt::format(" {}", flag)) != std::string_view::npos) {
                result.push_back(*mapping);
            }
            mapping.reset();
        } else if (const auto range = range_of(line)) {
            if (mapping) {
                return std::nullopt;
            }
            mapping = range;
        }
    }
    return mapping ? std::nullopt : std::optional(std::move(result));
}

std::optional<std::vector<AddrRange>> read_flagged_mappings(Tid pid, std::string_view flag) {
    const auto text = try_read_smaps(pid);
    return text ? parse_flagged_mappings(*text, flag) : std::nullopt;
}

std::optional<std::pair<std::vector<AddrRange>, std::vector<AddrRange>>>
read_flagged_mappings(Tid pid, std::string_view one, std::string_view other) {
    const auto text = try_read_smaps(pid);
    auto first = text ? parse_flagged_mappings(*text, one) : std::nullopt;
    auto second = first ? parse_flagged_mappings(*text, other) : std::nullopt;
    return second ? std::optional(std::pair(*std::move(first), *std::move(second))) : std::nullopt;
}

} // namespace memleax
