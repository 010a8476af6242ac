// SPDX-License-Identifier: GPL-3.0-or-later
/// Writes a slot's code, and beside it what each instruction boundary means in the original code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "instruction.hpp"

namespace memleax::arch {
inline namespace aarch64 {

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

    /// b target: no register changes, and no landing pad is needed there.
    void jump(CodeAddr target) {
        constexpr std::int64_t kReach = std::int64_t{1} << 27;
        const std::int64_t distance = target - (slot_ + static_cast<std::int64_t>(code_.size()));
        reached_ = reached_ && distance >= -kReach && distance < kReach && distance % 4 == 0;
        word(0x14000000U | (static_cast<std::uint32_t>(distance >> 2) & 0x3ffffffU));
    }

    /// ldr x<rt>, =value: the value stands behind the code, where finish() puts it.
    void load_literal(unsigned rt, std::uint64_t value) {
        literal_ = value;
        load_at_ = code_.size();
        word(0x58000000U | rt);
    }

    /// False if a jump's target was out of reach.
    [[nodiscard]] bool reached() const { return reached_; }

    [[nodiscard]] DisplacedInstruction finish() && {
        if (load_at_) {
            constexpr std::size_t kLiteralBytes = 8;
            while (code_.size() % kLiteralBytes != 0) {
                word(0); // udf #0
            }
            const auto words = static_cast<std::uint32_t>((code_.size() - *load_at_) / 4);
            constexpr unsigned kDistanceBit = 5;
            for (unsigned i = 0; i < 4; ++i) {
                code_[*load_at_ + i] |= static_cast<std::uint8_t>(words << kDistanceBit >> (8 * i));
            }
            word(static_cast<std::uint32_t>(literal_));
            word(static_cast<std::uint32_t>(literal_ >> 32U));
        }
        MEMLEAX_ASSERT(code_.size() <= kSlotCodeBytes);
        return {std::move(code_), kInstructionBytes, std::move(points_)};
    }

  private:
    CodeAddr slot_;
    std::vector<std::uint8_t> code_;
    std::vector<SlotPoint> points_;
    std::uint64_t literal_ = 0;
    std::optional<std::size_t> load_at_;
    bool reached_ = true;
};

} // namespace aarch64
} // namespace memleax::arch
