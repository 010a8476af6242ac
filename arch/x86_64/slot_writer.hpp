// SPDX-License-Identifier: GPL-3.0-or-later
/// Writes a slot's code, and beside it what each instruction boundary means in the original code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <span>
#include <vector>

#include "arch.hpp"

namespace memleax::arch {
inline namespace x86_64 {

class SlotWriter {
  public:
    explicit SlotWriter(CodeAddr slot) : slot_(slot) {}

    [[nodiscard]] CodeAddr here() const { return slot_ + static_cast<std::int64_t>(code_.size()); }

    /// The next instruction begins here; a thread that stands before it is, in the original code,
    /// at `original` with its stack pointer moved by `sp_adjust`.
    void point(CodeAddr original, std::int8_t sp_adjust = 0) {
        points_.push_back({static_cast<std::uint8_t>(code_.size()), original, sp_adjust});
    }

    /// The same, of code that was written for here by another writer.
    void point_at(SlotPoint point) {
        point.offset = static_cast<std::uint8_t>(point.offset + code_.size());
        points_.push_back(point);
    }
    [[nodiscard]] std::size_t size() const { return code_.size(); }

    void bytes(std::span<const std::uint8_t> bytes) {
        code_.insert(code_.end(), bytes.begin(), bytes.end());
    }
    void bytes(std::initializer_list<std::uint8_t> bytes) {
        code_.insert(code_.end(), bytes.begin(), bytes.end());
    }
    void word32(std::uint32_t value) { little_endian(value, 4); }
    void word64(std::uint64_t value) { little_endian(value, 8); }

    /// One instruction without effect but the jump: no register, flag or byte of the stack changes.
    void jump(CodeAddr target) {
        const std::int64_t distance = target - (here() + 5);
        if (fits32(distance)) {
            bytes({0xe9}); // jmp target
            word32(static_cast<std::uint32_t>(distance));
        } else {
            bytes({0xff, 0x25, 0, 0, 0, 0}); // jmp *0(%rip); the target follows
            word64(target.value());
        }
    }

    /// The distance of a short branch, its last byte, to be set when it is known...
    [[nodiscard]] std::size_t reserve_distance8() {
        code_.push_back(0);
        return code_.size() - 1;
    }
    /// ... so that it leads here.
    void set_distance8(std::size_t at) {
        const std::size_t distance = code_.size() - (at + 1);
        MEMLEAX_ASSERT(distance <= 0x7f);
        code_[at] = static_cast<std::uint8_t>(distance);
    }

    [[nodiscard]] static bool fits32(std::int64_t value) {
        return value >= std::numeric_limits<std::int32_t>::min() &&
               value <= std::numeric_limits<std::int32_t>::max();
    }

    [[nodiscard]] DisplacedInstruction finish(std::uint8_t original_length) && {
        MEMLEAX_ASSERT(code_.size() <= kSlotCodeBytes);
        return {std::move(code_), original_length, std::move(points_)};
    }

  private:
    void little_endian(std::uint64_t value, unsigned size) {
        for (unsigned i = 0; i < size; ++i) {
            code_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
        }
    }

    CodeAddr slot_;
    std::vector<std::uint8_t> code_;
    std::vector<SlotPoint> points_;
};

} // namespace x86_64
} // namespace memleax::arch
