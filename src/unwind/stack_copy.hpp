// SPDX-License-Identifier: GPL-3.0-or-later
/// A copy of the inner part of a stack, in place of the memory that it was copied from.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>

#include "memleax/proc/memory.hpp"

namespace memleax {

class StackCopy final : public MemoryReader {
  public:
    /// `bytes` lay at `begin`; they must live as long as they are read here.
    void set(RemoteAddr begin, std::span<const std::byte> bytes) {
        range_ = AddrRange::at(begin, bytes.size());
        bytes_ = bytes;
    }

    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        if (!range_.contains(from)) {
            return 0;
        }
        const std::span<const std::byte> rest = bytes_.subspan(from.value() - range_.begin);
        const std::size_t size = std::min(rest.size(), out.size());
        std::copy_n(rest.begin(), size, out.begin());
        return size;
    }

  private:
    AddrRange range_;
    std::span<const std::byte> bytes_;
};

} // namespace memleax
