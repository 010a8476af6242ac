// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "memleax/proc/memory.hpp"

namespace memleax {

/// Words of the target, which stands still. Read in pieces: large ones for walks upwards.
class WordWindow {
  public:
    static constexpr std::size_t kLarge = 1U << 20;
    static constexpr std::size_t kSmall = 64;

    WordWindow(MemoryReader& memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}

    /// Nothing where none is mapped.
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
        size_ = memory_.try_read(RemoteAddr(at), bytes_);
    }

    MemoryReader& memory_;
    std::vector<std::byte> bytes_;
    std::uint64_t begin_ = 0;
    std::size_t size_ = 0;
};

} // namespace memleax
