// SPDX-License-Identifier: GPL-3.0-or-later
/// DWARF expressions (DWARF 5 section 2.5) as call frame information uses them.
#pragma once

#include <array>
#include <bitset>
#include <cstdint>
#include <optional>

#include "arch.hpp"
#include "memleax/elf/cfi.hpp"

namespace memleax {

/// All registers of one frame, as far as they are known.
class RegisterFile {
  public:
    RegisterFile() = default;
    explicit RegisterFile(const arch::Registers& regs) {
        for (unsigned i = 0; i < arch::kDwarfRegisterCount; ++i) {
            set(i, arch::dwarf_register(regs, i));
        }
    }
    [[nodiscard]] std::optional<std::uint64_t> get(std::uint64_t number) const {
        return number < values_.size() && known_[number] ? std::optional(values_[number])
                                                         : std::nullopt;
    }
    void set(unsigned number, std::uint64_t value) {
        values_[number] = value;
        known_[number] = true;
    }
    void forget(unsigned number) { known_[number] = false; }

  private:
    std::array<std::uint64_t, arch::kDwarfRegisterCount> values_{};
    std::bitset<arch::kDwarfRegisterCount> known_;
};

/// Where an expression reads memory.
class WordReader {
  public:
    virtual ~WordReader() = default;
    /// The word at this address; nothing if it cannot be read whole.
    virtual std::optional<std::uint64_t> word(RemoteAddr at) = 0;
};

/// What an expression is evaluated with.
struct ExpressionContext {
    const RegisterFile& registers;
    WordReader& memory;
    std::optional<std::uint64_t> cfa; ///< absent while the CFA itself is being found
    bool push_cfa = false;            ///< begin with the CFA on the stack (register rules)
};

/// The value on top of the stack at the end. Expressions come from files that nobody vouches for:
/// operations, steps and the stack are bounded, and whatever is wrong (an unknown operation or
/// register, underflow, a branch to nowhere, unreadable memory, a division by zero) gives nothing.
[[nodiscard]] std::optional<std::uint64_t> evaluate(const DwarfExpression& expression,
                                                    const ExpressionContext& context);

} // namespace memleax
