// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <cstring>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/proc/memory.hpp"

namespace memleax {

/// Words of a writable mapping, in which something is looked for at each place.
class MemoryImage {
  public:
    MemoryImage(MemoryReader& memory, AddrRange range) : begin_(range.begin), bytes_(range.size()) {
        bytes_.resize(memory.try_read(RemoteAddr(range.begin), bytes_));
    }
    [[nodiscard]] std::uint64_t begin() const { return begin_; }
    [[nodiscard]] std::uint64_t size() const { return bytes_.size(); }
    [[nodiscard]] std::uint64_t word(std::uint64_t offset) const {
        return at<std::uint64_t>(offset);
    }
    [[nodiscard]] std::uint32_t half(std::uint64_t offset) const {
        return at<std::uint32_t>(offset);
    }
    /// The addresses of all places, 8 bytes apart, with so many bytes, for whose offsets `is` is
    /// true.
    template <class Is> std::vector<std::uint64_t> find_all(std::uint64_t bytes, Is&& is) const {
        std::vector<std::uint64_t> found;
        for (std::uint64_t offset = 0; offset + bytes <= size(); offset += 8) {
            if (is(offset)) {
                found.push_back(begin_ + offset);
            }
        }
        return found;
    }

  private:
    template <class T> [[nodiscard]] T at(std::uint64_t offset) const {
        T value = 0;
        std::memcpy(&value, &bytes_[offset], sizeof value);
        return value;
    }

    std::uint64_t begin_;
    std::vector<std::byte> bytes_;
};

} // namespace memleax
