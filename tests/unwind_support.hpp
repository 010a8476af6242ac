// SPDX-License-Identifier: GPL-3.0-or-later
/// Stacks made by hand: memory, rules and registers without a process.
#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <vector>

#include "../src/unwind/rule_source.hpp"
#include "memleax/proc/memory.hpp"

namespace memleax::test {

/// Memory in words at addresses of the test's choice, and a count of the reads.
class FakeMemory final : public MemoryReader {
  public:
    void put(std::uint64_t at, std::uint64_t word) {
        for (unsigned i = 0; i < 8; ++i) {
            bytes_[at + i] = static_cast<std::byte>(word >> (8 * i));
        }
    }
    /// Readable, and zero.
    void make_readable(std::uint64_t begin, std::uint64_t end) {
        for (std::uint64_t at = begin; at < end; ++at) {
            bytes_.try_emplace(at, std::byte{});
        }
    }
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        ++reads;
        std::size_t n = 0;
        for (auto it = bytes_.find(from.value());
             n < out.size() && it != bytes_.end() && it->first == from.value() + n; ++it) {
            out[n++] = it->second;
        }
        return n;
    }
    unsigned reads = 0;

  private:
    std::map<std::uint64_t, std::byte> bytes_;
};

/// Rules by frame; whatever has none is not code.
class FakeRules final : public RuleSource {
  public:
    std::map<FrameAddress, Rule> rules;
    std::map<FrameAddress, CfiRow> rows;
    unsigned asked = 0;

    Rule rule(FrameAddress frame) override {
        ++asked;
        const auto found = rules.find(frame);
        return found != rules.end() ? found->second : Rule::of(Rule::Kind::not_code);
    }
    const CfiRow* row(FrameAddress frame) override {
        const auto found = rows.find(frame);
        return found != rows.end() ? &found->second : nullptr;
    }
};

inline FrameAddress at(std::uint64_t pc) {
    return FrameAddress::exact(CodeAddr(pc));
}
inline FrameAddress after_call(std::uint64_t pc) {
    return FrameAddress::return_address(CodeAddr(pc));
}

/// CFA = sp + offset, return address below it, fp unchanged.
inline Rule sp_rule(std::int32_t offset) {
    Rule rule = Rule::of(Rule::Kind::regular);
    rule.cfa_offset = offset;
    rule.ra_offset = -8;
    return rule;
}

/// The same as a row, with every register unchanged.
inline CfiRow sp_row(std::int64_t offset) {
    CfiRow row;
    row.cfa_register = arch::kDwarfStackPointer;
    row.cfa_offset = offset;
    for (auto& r : row.registers) {
        r.kind = RegisterRule::Kind::same_value;
    }
    row.registers[arch::kDwarfStackPointer] = {RegisterRule::Kind::val_offset, 0, {}};
    row.registers[arch::kDwarfReturnAddress] = {RegisterRule::Kind::offset, -8, {}};
    return row;
}

} // namespace memleax::test
