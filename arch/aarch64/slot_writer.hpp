// SPDX-License-Identifier: GPL-3.0-or-later
/// Writes a slot's code, and beside it what each instruction boundary means in the original code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "instruction.hpp"

namespace memleax::arch {
inline namespace aarch64 {

/// b target, which reaches 128 MiB; nothing if that is too far.
constexpr std::optional<std::uint32_t> branch_to(CodeAddr from, CodeAddr target) {
    constexpr std::int64_t kReach = std::int64_t{1} << 27;
    const std::int64_t distance = target - from;
    if (distance < -kReach || distance >= kReach || distance % kInstructionBytes != 0) {
        return std::nullopt;
    }
    return 0x14000000U | (static_cast<std::uint32_t>(distance >> 2) & 0x3ffffffU);
}

class SlotWriter {
  public:
    explicit SlotWriter(CodeAddr slot) : slot_(slot) {}

    /// The next instruction begins here; a thread that stands before it is, in the original code,
    /// at `original`.
    void point(CodeAddr original) {
        points_.push_back({static_cast<std::uint8_t>(code_.size()), original, 0});
    }

    void word(std::uint32_t value) {
        for (unsigned i = 0; i < sizeof value; ++i) {
            code_.push_back(static_cast<std::uint8_t>(value >> (8 * i)));
        }
    }

    [[nodiscard]] CodeAddr here() const { return slot_ + static_cast<std::int64_t>(code_.size()); }

    /// b target: no register changes, and no landing pad is needed there.
    void jump(CodeAddr target) {
        const auto branch = branch_to(here(), target);
        reached_ = reached_ && branch;
        word(branch.value_or(0));
    }

    /// ldr x<rt>, =value: the value stands behind the code, where finish() puts it.
    void load_literal(unsigned rt, std::uint64_t value) {
        literals_.push_back({code_.size(), value});
        word(0x58000000U | rt);
    }

    /// False if a jump's target was out of reach.
    [[nodiscard]] bool reached() const { return reached_; }

    /// `length`: of the original code, in bytes.
    [[nodiscard]] DisplacedInstruction finish(std::uint8_t length) && {
        for (const auto& [load_at, value] : literals_) {
            constexpr std::size_t kLiteralBytes = 8;
            while (code_.size() % kLiteralBytes != 0) {
                word(0); // udf #0
            }
            const auto words = static_cast<std::uint32_t>((code_.size() - load_at) / 4);
            constexpr unsigned kDistanceBit = 5;
            for (unsigned i = 0; i < 4; ++i) {
                code_[load_at + i] |= static_cast<std::uint8_t>(words << kDistanceBit >> (8 * i));
            }
            word(static_cast<std::uint32_t>(value));
            word(static_cast<std::uint32_t>(value >> 32U));
        }
        MEMLEAX_ASSERT(code_.size() <= kSlotCodeBytes);
        return {std::move(code_), length, std::move(points_)};
    }

  private:
    CodeAddr slot_;
    std::vector<std::uint8_t> code_;
    std::vector<SlotPoint> points_;
    struct Literal {
        std::size_t load_at;
        std::uint64_t value;
    };
    std::vector<Literal> literals_;
    bool reached_ = true;
};

} // namespace aarch64
} // namespace memleax::arch
