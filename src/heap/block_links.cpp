// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/heap/block_links.hpp"

#include <algorithm>

#include "memleax/base/error.hpp"

namespace memleax {

void BlockLinks::reserve(std::size_t blocks) {
    narrow_.reserve(blocks + 1);
    links_.reserve(blocks);
}

void BlockLinks::begin_block() {
    add_place();
}

void BlockLinks::finish(std::size_t blocks) {
    MEMLEAX_ASSERT(begun() <= blocks);
    while (begun() <= blocks) {
        add_place();
    }
}

void BlockLinks::add_place() {
    if (wide_.empty() && links_.size() > most_narrow_) {
        wide_.reserve(std::max(narrow_.capacity(), narrow_.size() + 1));
        wide_.assign(narrow_.begin(), narrow_.end());
        narrow_ = LargeVector<std::uint32_t>();
        wide_.push_back(links_.size());
    } else if (wide_.empty()) {
        narrow_.push_back(static_cast<std::uint32_t>(links_.size()));
    } else {
        wide_.push_back(links_.size());
    }
}

std::uint32_t BlockLinks::block_of(std::uint64_t link) const {
    const auto in = [link](const auto& places) {
        const auto after = std::upper_bound(places.begin(), places.end(), link);
        return static_cast<std::uint32_t>(after - places.begin()) - 1;
    };
    return wide_.empty() ? in(narrow_) : in(wide_);
}

} // namespace memleax
