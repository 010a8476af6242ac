// SPDX-License-Identifier: GPL-3.0-or-later
/// Fields of an instruction word (Arm ARM, C4.1: the encodings by group). No disassembler is asked:
/// what depends on its own address is in a few groups, and a new extension is found outside of
/// them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

namespace memleax::arch {
inline namespace aarch64 {

/// The first instruction, little-endian as all of them are; nothing if it is cut.
template <class Byte> std::optional<std::uint32_t> first_word(std::span<const Byte> code) {
    std::uint32_t word = 0;
    if (code.size() < sizeof word) {
        return std::nullopt;
    }
    std::memcpy(&word, code.data(), sizeof word);
    return word;
}

constexpr std::uint32_t field(std::uint32_t word, unsigned lowest, unsigned count) {
    return (word >> lowest) & ((1U << count) - 1U);
}

constexpr std::int64_t signed_field(std::uint32_t word, unsigned lowest, unsigned count) {
    const std::int64_t sign = std::int64_t{1} << (count - 1U);
    return (std::int64_t{field(word, lowest, count)} ^ sign) - sign;
}

/// ldxr, stxr, ldaxr, stlxr, and their forms for bytes, halfwords and pairs; not ldar and stlr, nor
/// cas (C4.1.94, "load/store exclusive pair" and "... register"). Bit 22: it loads.
constexpr bool is_exclusive(std::uint32_t word) {
    const bool size_of_pair = field(word, 31, 1) == 1; // else casp stands there
    return field(word, 24, 6) == 0b001000 && field(word, 23, 1) == 0 &&
           (field(word, 21, 1) == 0 || size_of_pair);
}

/// The register that a load or store finds its memory by.
constexpr std::uint32_t base_of(std::uint32_t word) {
    return field(word, 5, 5);
}

/// Loads and stores ("x1x0" of C4.1) by a register that is neither sp nor the frame pointer. Not
/// literal loads, and no vectors of SVE, which no function begins with.
constexpr bool may_fault(std::uint32_t word) {
    constexpr std::uint32_t kStackPointer = 31;
    constexpr std::uint32_t kFramePointer = 29;
    const bool is_literal = field(word, 27, 3) == 0b011 && field(word, 24, 2) == 0;
    return field(word, 27, 1) == 1 && field(word, 25, 1) == 0 && !is_literal &&
           base_of(word) != kStackPointer && base_of(word) != kFramePointer;
}

} // namespace aarch64
} // namespace memleax::arch
