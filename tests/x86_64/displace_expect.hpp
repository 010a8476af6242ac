// SPDX-License-Identifier: GPL-3.0-or-later
/// Expectations about displaced instructions, bytes in and bytes out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "arch.hpp"

namespace memleax::arch {

inline void PrintTo(const SlotPoint& point, std::ostream* out) {
    *out << fmt::format("{{{}, {:#x}, {}}}", point.offset, point.original.value(), point.sp_adjust);
}
inline bool operator==(const SlotPoint& a, const SlotPoint& b) {
    return a.offset == b.offset && a.original == b.original && a.sp_adjust == b.sp_adjust;
}

namespace test {

using Bytes = std::vector<std::uint8_t>;
using Points = std::vector<SlotPoint>;

inline constexpr CodeAddr kFrom(0x7f0000001000);
/// 0x10000 further on: within reach of everything that is within reach of kFrom.
inline constexpr CodeAddr kSlot(0x7f0000011000);
/// No rel32 leads back from here.
inline constexpr CodeAddr kFarSlot(0x7f1000000000);

inline std::string hex(const Bytes& bytes) {
    std::string text;
    for (const std::uint8_t byte : bytes) {
        text += fmt::format("{:02x} ", byte);
    }
    return text;
}

inline void expect_moved(const Bytes& in, CodeAddr slot, const Bytes& out, const Points& points,
                         CodeAddr from = kFrom) {
    // What follows it must not matter.
    Bytes code = in;
    code.resize(std::max(code.size(), kMaxInstructionBytes), 0x90);
    const auto displaced = displace(from, code, slot);
    ASSERT_TRUE(displaced.ok()) << hex(in) << displaced.error().message();
    EXPECT_EQ(hex(displaced->code), hex(out)) << "from " << hex(in);
    EXPECT_EQ(displaced->original_length, in.size()) << hex(in);
    EXPECT_EQ(displaced->points, points) << "from " << hex(in);
}

inline void expect_refused(const Bytes& in, const std::string& reason, CodeAddr slot = kSlot) {
    const auto displaced = displace(kFrom, in, slot);
    ASSERT_FALSE(displaced.ok()) << hex(in);
    EXPECT_EQ(displaced.error().message(), reason) << hex(in);
}

} // namespace test
} // namespace memleax::arch
