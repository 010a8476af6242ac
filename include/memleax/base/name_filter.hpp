// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace memleax {

/// Tells of most names that they are none of some hundred, by their first four bytes: a large
/// program has 10^5 symbols, which would otherwise be measured and hashed each.
class NameFilter {
  public:
    void add(std::string_view name) { wanted_.set(index(first_bytes(name))); }
    /// False if it is none of those that were added; true for those, and for a few others.
    /// `name` ends with a null byte, or with the "@" before a symbol's version.
    [[nodiscard]] bool may_be_in(const char* name) const {
        std::uint32_t bytes = 0;
        for (unsigned i = 0; i < kBytes && name[i] != '\0' && name[i] != '@'; ++i) {
            bytes |= std::uint32_t{static_cast<unsigned char>(name[i])} << (8 * i);
        }
        return wanted_.test(index(bytes));
    }

  private:
    static constexpr unsigned kBytes = 4;
    static constexpr unsigned kIndexBits = 12;
    static std::uint32_t first_bytes(std::string_view name) {
        std::uint32_t bytes = 0;
        for (unsigned i = 0; i < kBytes && i < name.size(); ++i) {
            bytes |= std::uint32_t{static_cast<unsigned char>(name[i])} << (8 * i);
        }
        return bytes;
    }
    static std::size_t index(std::uint32_t bytes) {
        constexpr std::uint32_t kGoldenRatio = 0x9e3779b1; // Fibonacci hashing
        return (bytes * kGoldenRatio) >> (32 - kIndexBits);
    }
    std::bitset<std::size_t{1} << kIndexBits> wanted_;
};

} // namespace memleax
