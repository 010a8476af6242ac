// SPDX-License-Identifier: GPL-3.0-or-later
/// Memory of a process that there is not, for books that are made by hand.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <span>
#include <vector>

#include "memleax/proc/memory.hpp"

namespace memleax::testing {

/// Memory that is zero where nobody has written.
class FakeMemory final : public MemoryReader {
  public:
    using Address = std::uint64_t;

    void map(Address begin, std::uint64_t size) { parts_[begin].resize(size); }

    void put(Address at, std::uint64_t word) { std::memcpy(place(at), &word, sizeof word); }
    void put_half(Address at, std::uint32_t half) { std::memcpy(place(at), &half, sizeof half); }
    void put_short(Address at, std::uint16_t word) { std::memcpy(place(at), &word, sizeof word); }

    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        auto part = parts_.upper_bound(from.value());
        if (part == parts_.begin()) {
            return 0;
        }
        --part;
        const std::uint64_t offset = from.value() - part->first;
        if (offset >= part->second.size()) {
            return 0;
        }
        const std::size_t got = std::min<std::uint64_t>(out.size(), part->second.size() - offset);
        std::memcpy(out.data(), &part->second[offset], got);
        return got;
    }

  private:
    std::byte* place(Address at) {
        auto& [begin, bytes] = *std::prev(parts_.upper_bound(at));
        return &bytes.at(at - begin);
    }
    std::map<Address, std::vector<std::byte>> parts_;
};

} // namespace memleax::testing
