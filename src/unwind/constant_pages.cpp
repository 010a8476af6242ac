// SPDX-License-Identifier: GPL-3.0-or-later
#include "constant_pages.hpp"

#include <algorithm>
#include <cstring>

namespace memleax {

std::optional<std::uint64_t> ConstantPages::word(RemoteAddr at) {
    const std::uint64_t number = at.value() / kPage;
    const std::size_t offset = at.value() % kPage;
    const Page* found = number == last_number_ ? last_ : page(number);
    last_number_ = number;
    last_ = found;
    if (found == nullptr) {
        return std::nullopt;
    }
    if (offset > kPage - sizeof(std::uint64_t)) {
        return memory_.try_read_object<std::uint64_t>(at);
    }
    std::uint64_t value = 0;
    std::memcpy(&value, found->data() + offset, sizeof(value));
    return value;
}

void ConstantPages::forget() {
    pages_.clear();
    last_number_ = ~std::uint64_t{0};
    last_ = nullptr;
}

const ConstantPages::Page* ConstantPages::page(std::uint64_t number) {
    if (const auto known = pages_.find(number); known != pages_.end()) {
        return known->second.get();
    }
    const RemoteAddr begin(number * kPage);
    if (!is_constant(begin)) {
        return nullptr;
    }
    auto made = std::make_unique<Page>();
    if (memory_.try_read(begin, *made) < kPage) {
        return nullptr;
    }
    if (pages_.size() >= kMaxPages) {
        pages_.clear();
    }
    return pages_.emplace(number, std::move(made)).first->second.get();
}

bool ConstantPages::is_constant(RemoteAddr page) const {
    const auto& mappings = modules_.mappings(); // ascending
    const auto behind = std::upper_bound(
        mappings.begin(), mappings.end(), page.value(),
        [](std::uint64_t at, const Mapping& each) { return at < each.range.begin; });
    if (behind == mappings.begin()) {
        return false;
    }
    const Mapping& mapping = *(behind - 1);
    // The vDSO has no inode, but a name.
    return mapping.range.contains(page) && mapping.readable && !mapping.writable &&
           !mapping.path.empty();
}

} // namespace memleax
