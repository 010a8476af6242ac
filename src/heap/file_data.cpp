// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/heap/file_data.hpp"

#include <algorithm>
#include <iterator>

namespace memleax {

bool FileData::look_up(std::uint64_t word) {
    const auto after = std::upper_bound(
        mappings_.begin(), mappings_.end(), word,
        [](std::uint64_t at, const Mapping& mapping) { return at < mapping.range.begin; });
    const std::uint64_t next = after == mappings_.end() ? ~0ULL : after->range.begin;
    if (after == mappings_.begin()) {
        outside_ = {0, next};
        return false;
    }
    const Mapping& mapping = *std::prev(after);
    if (!mapping.range.contains(word)) {
        outside_ = {mapping.range.end, next};
        return false;
    }
    const bool is_file_data = mapping.inode != 0 && !mapping.shared && mapping.readable;
    (is_file_data ? inside_ : outside_) = mapping.range;
    return is_file_data;
}

} // namespace memleax
