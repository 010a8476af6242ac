// SPDX-License-Identifier: GPL-3.0-or-later
/// arm64's code as words, and how tests print what it becomes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <ostream>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "arch.hpp"

namespace memleax::arch {
inline namespace aarch64 {

inline void PrintTo(const SlotPoint& point, std::ostream* out) {
    *out << fmt::format("{{{}, {:#x}}}", point.offset, point.original.value());
}
inline bool operator==(const SlotPoint& a, const SlotPoint& b) {
    return a.offset == b.offset && a.original == b.original && a.sp_adjust == b.sp_adjust;
}

using Words = std::vector<std::uint32_t>;
inline std::string hex(std::span<const std::uint8_t> bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 4) {
        std::uint32_t word = 0;
        std::memcpy(&word, &bytes[i], std::min<std::size_t>(4, bytes.size() - i));
        text += fmt::format("{:08x} ", word);
    }
    return text;
}

inline std::vector<std::uint8_t> bytes_of(const Words& words) {
    std::vector<std::uint8_t> bytes(words.size() * 4);
    std::memcpy(bytes.data(), words.data(), bytes.size());
    return bytes;
}

} // namespace aarch64
} // namespace memleax::arch
