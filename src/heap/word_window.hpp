// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "memleax/proc/memory.hpp"

namespace memleax {

/// Words of the target, which stands still. Read in pieces: large ones for walks upwards.
class WordWindow {
  public:
    static constexpr std::size_t kLarge = 1U << 20;
    static constexpr std::size_t kSmall = 64;

    WordWindow(MemoryReader& memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

    /// Nothing is read from here on.
    void set_end(std::uint64_t end) { end_ = end; }

    /// Nothing where none is mapped, or behind the end.
    std::optional<std::uint64_t> word(std::uint64_t at) {
        if (at < begin_ || at + sizeof(std::uint64_t) > begin_ + size_) {
            fill(at);
            if (size_ < sizeof(std::uint64_t)) {
                return std::nullopt;
            }
        }
        std::uint64_t value = 0;
        std::memcpy(&value, &bytes_[at - begin_], sizeof value);
        return value;
    }

  private:
    void fill(std::uint64_t at) {
        begin_ = at;
        const std::uint64_t left = end_ - std::min(at, end_);
        const std::span<std::byte> out = std::span(bytes_).first(std::min(left, bytes_.size()));
        size_ = out.empty() ? 0 : memory_.try_read(RemoteAddr(at), out);
    }

    MemoryReader& memory_;
    std::vector<std::byte> bytes_;
    std::uint64_t begin_ = 0;
    std::size_t size_ = 0;
    std::uint64_t end_ = UINT64_MAX;
};

} // namespace memleax
