// SPDX-License-Identifier: GPL-3.0-or-later
#include "expression.hpp"

#include <algorithm>

#include <dwarf.h>

namespace memleax {

namespace {

using Word = std::uint64_t;
using SignedWord = std::int64_t;

constexpr std::size_t kMaxStack = 64;
constexpr unsigned kMaxSteps = 1000;

/// The result of a binary operation: `a` was below `b`. Nothing for a division by zero.
std::optional<Word> binary(std::uint8_t opcode, Word a, Word b) {
    const auto sa = static_cast<SignedWord>(a);
    const auto sb = static_cast<SignedWord>(b);
    switch (opcode) {
    case DW_OP_plus:
        return a + b;
    case DW_OP_minus:
        return a - b;
    case DW_OP_mul:
        return a * b;
    case DW_OP_and:
        return a & b;
    case DW_OP_or:
        return a | b;
    case DW_OP_xor:
        return a ^ b;
    case DW_OP_shl:
        return b < 64 ? a << b : 0;
    case DW_OP_shr:
        return b < 64 ? a >> b : 0;
    case DW_OP_shra:
        return static_cast<Word>(sa >> std::min<Word>(b, 63));
    case DW_OP_div: // signed; by -1 it is a negation, which for the least number overflows in C++
        if (b == 0) {
            return std::nullopt;
        }
        return sb == -1 ? Word{0} - a : static_cast<Word>(sa / sb);
    case DW_OP_mod: // unsigned
        return b == 0 ? std::nullopt : std::optional(a % b);
    case DW_OP_eq:
        return Word{sa == sb};
    case DW_OP_ne:
        return Word{sa != sb};
    case DW_OP_ge:
        return Word{sa >= sb};
    case DW_OP_gt:
        return Word{sa > sb};
    case DW_OP_le:
        return Word{sa <= sb};
    case DW_OP_lt:
        return Word{sa < sb};
    default:
        return std::nullopt;
    }
}

bool is_binary(std::uint8_t opcode) {
    switch (opcode) {
    case DW_OP_plus:
    case DW_OP_minus:
    case DW_OP_mul:
    case DW_OP_and:
    case DW_OP_or:
    case DW_OP_xor:
    case DW_OP_shl:
    case DW_OP_shr:
    case DW_OP_shra:
    case DW_OP_div:
    case DW_OP_mod:
    case DW_OP_eq:
    case DW_OP_ne:
    case DW_OP_ge:
    case DW_OP_gt:
    case DW_OP_le:
    case DW_OP_lt:
        return true;
    default:
        return false;
    }
}

bool is_constant(std::uint8_t opcode) {
    switch (opcode) {
    case DW_OP_addr:
    case DW_OP_const1u:
    case DW_OP_const1s:
    case DW_OP_const2u:
    case DW_OP_const2s:
    case DW_OP_const4u:
    case DW_OP_const4s:
    case DW_OP_const8u:
    case DW_OP_const8s:
    case DW_OP_constu:
    case DW_OP_consts:
        return true;
    default:
        return false;
    }
}

/// One evaluation. Each step returns false where the expression is not to be believed.
class Evaluation {
  public:
    Evaluation(const DwarfExpression& expression, const ExpressionContext& context)
        : expression_(expression), context_(context) {}

    std::optional<Word> run() {
        if (context_.push_cfa && !push(context_.cfa)) {
            return std::nullopt;
        }
        for (unsigned steps = 0; next_ < expression_.size(); ++steps) {
            if (steps == kMaxSteps || !execute(expression_[next_++])) {
                return std::nullopt;
            }
        }
        return pop();
    }

  private:
    bool push(std::optional<Word> value) {
        if (!value || depth_ == kMaxStack) {
            return false;
        }
        stack_[depth_++] = *value;
        return true;
    }
    std::optional<Word> pop() {
        return depth_ > 0 ? std::optional(stack_[--depth_]) : std::nullopt;
    }
    /// The n-th from the top, which is 0.
    std::optional<Word> pick(Word n) {
        return n < depth_ ? std::optional(stack_[depth_ - 1 - n]) : std::nullopt;
    }
    bool push_register(Word number, Word offset) {
        const auto value = context_.registers.get(number);
        return value && push(*value + offset);
    }
    bool dereference(Word size) {
        const auto address = pop();
        if (!address || size == 0 || size > 8) {
            return false;
        }
        const auto word = context_.memory.word(RemoteAddr(*address));
        return word && push(size == 8 ? *word : *word & ((Word{1} << (8 * size)) - 1));
    }
    /// Branches count bytes from the end of the operation: opcode and a two-byte operand.
    bool branch(const DwarfOp& op) {
        const Word target = op.offset + 3 + op.operand1;
        const auto found = std::find_if(expression_.begin(), expression_.end(),
                                        [&](const DwarfOp& o) { return o.offset == target; });
        if (found != expression_.end()) {
            next_ = static_cast<std::size_t>(found - expression_.begin());
            return true;
        }
        // The end of the expression is a fair target, but operations do not tell their size.
        next_ = expression_.size();
        return !expression_.empty() && target > expression_.back().offset;
    }
    bool rotate() {
        if (depth_ < 3) {
            return false;
        }
        std::rotate(&stack_[depth_ - 3], &stack_[depth_ - 1], &stack_[depth_]);
        return true;
    }
    bool execute(const DwarfOp& op);

    const DwarfExpression& expression_;
    const ExpressionContext& context_;
    std::size_t next_ = 0;
    std::size_t depth_ = 0;
    std::array<Word, kMaxStack> stack_{};
};

bool Evaluation::execute(const DwarfOp& op) {
    const std::uint8_t code = op.opcode;
    if (code >= DW_OP_lit0 && code <= DW_OP_lit31) {
        return push(Word{code} - DW_OP_lit0);
    }
    if (code >= DW_OP_breg0 && code <= DW_OP_breg31) {
        return push_register(Word{code} - DW_OP_breg0, op.operand1);
    }
    if (is_constant(code)) {
        return push(op.operand1);
    }
    if (is_binary(code)) {
        const auto b = pop();
        const auto a = pop();
        return a && b && push(binary(code, *a, *b));
    }
    switch (code) {
    case DW_OP_bregx:
        return push_register(op.operand1, op.operand2);
    case DW_OP_deref:
        return dereference(8);
    case DW_OP_deref_size:
        return dereference(op.operand1);
    case DW_OP_plus_uconst: {
        const auto a = pop();
        return a && push(*a + op.operand1);
    }
    case DW_OP_neg: {
        const auto a = pop();
        return a && push(Word{0} - *a);
    }
    case DW_OP_not: {
        const auto a = pop();
        return a && push(~*a);
    }
    case DW_OP_abs: {
        const auto a = pop();
        return a && push(static_cast<SignedWord>(*a) < 0 ? Word{0} - *a : *a);
    }
    case DW_OP_dup:
        return push(pick(0));
    case DW_OP_over:
        return push(pick(1));
    case DW_OP_pick:
        return push(pick(op.operand1));
    case DW_OP_drop:
        return pop().has_value();
    case DW_OP_swap:
        if (depth_ < 2) {
            return false;
        }
        std::swap(stack_[depth_ - 1], stack_[depth_ - 2]);
        return true;
    case DW_OP_rot:
        return rotate();
    case DW_OP_skip:
        return branch(op);
    case DW_OP_bra: {
        const auto condition = pop();
        return condition && (*condition == 0 || branch(op));
    }
    case DW_OP_call_frame_cfa:
        return push(context_.cfa);
    case DW_OP_nop:
        return true;
    default:
        return false;
    }
}

} // namespace

std::optional<std::uint64_t> evaluate(const DwarfExpression& expression,
                                      const ExpressionContext& context) {
    return Evaluation(expression, context).run();
}

} // namespace memleax
