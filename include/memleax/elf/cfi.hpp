// SPDX-License-Identifier: GPL-3.0-or-later
/// Call frame information (DWARF 5 section 6.4, .eh_frame of the LSB), one row at a time, free of
/// libdw's types.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "arch.hpp"
#include "memleax/elf/elf_image.hpp"

namespace memleax {

/// One operation of a DWARF expression (DWARF 5 section 2.5).
struct DwarfOp {
    std::uint8_t opcode = 0;
    std::uint64_t operand1 = 0;
    std::uint64_t operand2 = 0;
    std::uint64_t offset = 0; ///< of this operation in the expression, as branches count
};
using DwarfExpression = std::vector<DwarfOp>;

/// How the caller's value of one register is found.
struct RegisterRule {
    enum class Kind : std::uint8_t {
        undefined,     ///< not recoverable; for the return address: this is the outermost frame
        same_value,    ///< the callee did not touch it
        offset,        ///< saved in memory at CFA + offset
        val_offset,    ///< is CFA + offset
        expression,    ///< saved in memory at the expression's result (CFA pushed first)
        val_expression ///< is the expression's result (CFA pushed first)
    };
    Kind kind = Kind::undefined;
    std::int64_t offset = 0;
    DwarfExpression expression;
};

/// The rules that hold at one pc.
struct CfiRow {
    std::optional<unsigned> cfa_register; ///< CFA = register + cfa_offset, or
    std::int64_t cfa_offset = 0;
    DwarfExpression cfa_expression; ///< the result of this, if cfa_register is absent
    std::array<RegisterRule, arch::kDwarfRegisterCount> registers;
    bool signal_frame = false; ///< augmentation 'S': the caller was interrupted, not calling
};

/// The unwind tables of one ELF image: .eh_frame first, .debug_frame where that has no row.
class CfiTable {
  public:
    /// Never fails: an image without tables has no rows.
    explicit CfiTable(std::shared_ptr<ElfImage> image);
    ~CfiTable();
    CfiTable(const CfiTable&) = delete;
    CfiTable& operator=(const CfiTable&) = delete;

    /// The row that covers this address; nothing if none does or if it is malformed.
    [[nodiscard]] std::optional<CfiRow> row(ElfAddr address);

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace memleax
