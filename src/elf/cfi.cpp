// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/elf/cfi.hpp"

#include <cstdlib>

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "memleax/elf/elf_file.hpp"

namespace memleax {

namespace {

struct FreeFrame {
    void operator()(Dwarf_Frame* frame) const { std::free(frame); }
};
using FramePtr = std::unique_ptr<Dwarf_Frame, FreeFrame>;

DwarfExpression translate(const Dwarf_Op* ops, std::size_t count) {
    DwarfExpression expression;
    expression.reserve(count);
    for (std::size_t i = 0; i < count; ++i) {
        expression.push_back({ops[i].atom, ops[i].number, ops[i].number2, ops[i].offset});
    }
    return expression;
}

/// libdw gives a register's rule as a location description. Its shapes (dwarf_frame_register.c):
///
///     ops == null                                    same value
///     no ops                                         undefined
///     call_frame_cfa [plus_uconst n]                 offset(n)
///     call_frame_cfa [plus_uconst n] stack_value     val_offset(n)
///     regx r                                         register(r)
///     call_frame_cfa <expression>                    expression
///     call_frame_cfa <expression> stack_value        val_expression
///
/// An expression that happens to look like an offset means the same as that.
RegisterRule translate_rule(const Dwarf_Op* ops, std::size_t count) {
    using Kind = RegisterRule::Kind;
    RegisterRule rule;
    if (count == 0) {
        rule.kind = ops == nullptr ? Kind::same_value : Kind::undefined;
        return rule;
    }
    if (ops[0].atom == DW_OP_regx) { // the caller's value is in another register
        rule.kind = Kind::val_expression;
        rule.expression = {{DW_OP_bregx, ops[0].number, 0, 0}};
        return rule;
    }
    const bool is_value = ops[count - 1].atom == DW_OP_stack_value;
    const std::size_t end = is_value ? count - 1 : count;
    std::size_t begin = 0;
    if (ops[0].atom == DW_OP_call_frame_cfa) {
        begin = 1; // our evaluator pushes the CFA itself
        if (end == 1 || (end == 2 && ops[1].atom == DW_OP_plus_uconst)) {
            rule.kind = is_value ? Kind::val_offset : Kind::offset;
            rule.offset = end == 1 ? 0 : static_cast<std::int64_t>(ops[1].number);
            return rule;
        }
    }
    rule.kind = is_value ? Kind::val_expression : Kind::expression;
    rule.expression = translate(ops + begin, end - begin);
    return rule;
}

/// CFA = register + offset comes as one bregx (libdw's own) or breg<n> (an expression's).
bool translate_cfa(Dwarf_Frame* frame, CfiRow* row) {
    Dwarf_Op* ops = nullptr;
    std::size_t count = 0;
    if (dwarf_frame_cfa(frame, &ops, &count) != 0 || count == 0) {
        return false;
    }
    if (count == 1 && ops->atom == DW_OP_bregx) {
        row->cfa_register = static_cast<unsigned>(ops->number);
        row->cfa_offset = static_cast<std::int64_t>(ops->number2);
    } else if (count == 1 && ops->atom >= DW_OP_breg0 && ops->atom <= DW_OP_breg31) {
        row->cfa_register = ops->atom - DW_OP_breg0;
        row->cfa_offset = static_cast<std::int64_t>(ops->number);
    } else {
        row->cfa_expression = translate(ops, count);
    }
    return true;
}

std::optional<CfiRow> row_from(Dwarf_CFI* cfi, ElfAddr address) {
    Dwarf_Frame* raw = nullptr;
    if (cfi == nullptr || dwarf_cfi_addrframe(cfi, address.value(), &raw) != 0) {
        return std::nullopt;
    }
    const FramePtr frame(raw);
    CfiRow row;
    Dwarf_Addr start = 0;
    Dwarf_Addr end = 0;
    const int return_register = dwarf_frame_info(frame.get(), &start, &end, &row.signal_frame);
    if (return_register < 0 || !translate_cfa(frame.get(), &row)) {
        return std::nullopt;
    }
    for (unsigned i = 0; i < arch::kDwarfRegisterCount; ++i) {
        // The table may keep the return address in a column of its own choice.
        const int column = i == arch::kDwarfReturnAddress ? return_register : static_cast<int>(i);
        Dwarf_Op memory[3];
        Dwarf_Op* ops = nullptr;
        std::size_t count = 0;
        if (dwarf_frame_register(frame.get(), column, memory, &ops, &count) != 0) {
            return std::nullopt;
        }
        row.registers[i] = translate_rule(ops, count);
    }
    return row;
}

/// dwarf_begin_elf looks at (and decompresses) every debug section, so it is asked only where there
/// is something to find.
bool has_debug_frame(Elf* elf) {
    return has_section(elf, [](std::string_view name, const GElf_Shdr&, Elf_Scn*) {
        return name == ".debug_frame" || name == ".zdebug_frame";
    });
}

} // namespace

struct CfiTable::Impl {
    std::shared_ptr<ElfImage> image; ///< libdw's tables point into it
    Dwarf_CFI* eh_frame = nullptr;
    Dwarf* dwarf = nullptr;
    Dwarf_CFI* debug_frame = nullptr; ///< belongs to `dwarf`
    bool looked_for_debug_frame = false;

    explicit Impl(std::shared_ptr<ElfImage> from) : image(std::move(from)) {
        if (image != nullptr) {
            eh_frame = dwarf_getcfi_elf(image->handle());
        }
    }
    ~Impl() {
        if (eh_frame != nullptr) {
            dwarf_cfi_end(eh_frame);
        }
        if (dwarf != nullptr) {
            dwarf_end(dwarf);
        }
    }
    Impl(const Impl&) = delete;
    Impl& operator=(const Impl&) = delete;

    Dwarf_CFI* find_debug_frame() {
        if (!looked_for_debug_frame) {
            looked_for_debug_frame = true;
            if (image != nullptr && has_debug_frame(image->handle()) &&
                has_sane_sections(image->handle())) {
                dwarf = dwarf_begin_elf(image->handle(), DWARF_C_READ, nullptr);
                debug_frame = dwarf != nullptr ? dwarf_getcfi(dwarf) : nullptr;
            }
        }
        return debug_frame;
    }
};

CfiTable::CfiTable(std::shared_ptr<ElfImage> image)
    : impl_(std::make_unique<Impl>(std::move(image))) {}

CfiTable::~CfiTable() = default;

std::optional<CfiRow> CfiTable::row(ElfAddr address) {
    if (auto row = row_from(impl_->eh_frame, address)) {
        return row;
    }
    return row_from(impl_->find_debug_frame(), address);
}

} // namespace memleax
