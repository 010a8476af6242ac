// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/memory_error.hpp"

namespace memleax {

const char* name_of(MemoryError::Kind kind) {
    switch (kind) {
    case MemoryError::Kind::double_free:
        return "double_free";
    case MemoryError::Kind::realloc_freed:
        return "realloc_freed";
    case MemoryError::Kind::inside_block:
        return "inside_block";
    case MemoryError::Kind::inside_freed:
        return "inside_freed";
    case MemoryError::Kind::never_allocated:
        return "never_allocated";
    case MemoryError::Kind::mismatch:
        return "mismatch";
    }
    return "unknown";
}

const MemoryError* MemoryErrors::add(const MemoryError& error) {
    const Key key{error.kind, error.by_realloc, error.free_stack, error.freed_before,
                  error.alloc_stack};
    const auto known = places_.find(key);
    if (known != places_.end()) {
        MemoryError& place = errors_[known->second];
        ++place.count;
        return &place;
    }
    if (errors_.size() == kMost) {
        return nullptr;
    }
    places_.emplace(key, errors_.size());
    MemoryError& place = errors_.emplace_back(error);
    place.number = static_cast<std::uint32_t>(errors_.size());
    place.count = 1;
    return &place;
}

} // namespace memleax
