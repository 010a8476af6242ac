// SPDX-License-Identifier: GPL-3.0-or-later
#include "module_rules.hpp"

#include <algorithm>
#include <array>
#include <span>

namespace memleax {

namespace {

/// The code around a pc: `before` ends where `at` begins. Either may be short.
class NearbyCode {
  public:
    NearbyCode(MemoryReader& memory, CodeAddr pc) {
        const RemoteAddr from = pc.as_data() - static_cast<std::int64_t>(arch::kCodeBefore);
        const std::size_t got = memory.try_read(from, bytes_);
        if (got > arch::kCodeBefore) {
            before_ = std::span(bytes_).first(arch::kCodeBefore);
            at_ = std::span(bytes_).subspan(arch::kCodeBefore, got - arch::kCodeBefore);
        } else { // pc begins a mapping
            const auto room = std::span(bytes_).first(arch::kCodeAt);
            at_ = room.first(memory.try_read(pc.as_data(), room));
        }
    }
    [[nodiscard]] std::span<const std::byte> before() const { return before_; }
    [[nodiscard]] std::span<const std::byte> at() const { return at_; }

  private:
    std::array<std::byte, arch::kCodeBefore + arch::kCodeAt> bytes_{};
    std::span<const std::byte> before_;
    std::span<const std::byte> at_;
};

Rule rule_without_tables(FrameAddress frame, const NearbyCode& code) {
    // A call is not made before the frame is set up, so only an exact pc can be at its edges.
    if (!frame.is_return_address()) {
        if (const auto edge = arch::frame_edge(code.before(), code.at())) {
            Rule rule = Rule::of(Rule::Kind::regular);
            rule.cfa_offset = edge->cfa_offset;
            rule.ra_offset = edge->return_address_offset.value_or(0);
            rule.ra_place =
                edge->return_address_offset ? Rule::RaPlace::at_cfa : Rule::RaPlace::in_register;
            return rule;
        }
    }
    return Rule::of(Rule::Kind::frame_pointer);
}

} // namespace

std::unique_ptr<CfiRow> ModuleRules::read_row(FrameAddress frame) {
    const Module* module = modules_.find(frame.lookup_pc());
    if (module == nullptr || module->image == nullptr) {
        return nullptr;
    }
    auto& table = tables_[module];
    if (table == nullptr) {
        table = std::make_unique<CfiTable>(module->image);
    }
    auto row = table->row(module->to_elf(frame.lookup_pc()));
    return row ? std::make_unique<CfiRow>(*std::move(row)) : nullptr;
}

Rule ModuleRules::rule(FrameAddress frame) {
    if (std::find(own_return_places_.begin(), own_return_places_.end(), frame.pc()) !=
        own_return_places_.end()) {
        return rule_by_frame_pointer(Rule::Kind::own);
    }
    if (!modules_.is_executable(frame.lookup_pc())) {
        return Rule::of(Rule::Kind::not_code);
    }
    // The restorer is told by its code, whether or not a table marks it as a signal frame (glibc's
    // does, musl's has none): the kernel's frame has all registers in known places. Looked at with
    // the exact pc, since no call returns to it.
    const NearbyCode code(memory_, frame.pc());
    if (arch::is_signal_return_code(code.at())) {
        return Rule::of(Rule::Kind::signal_frame);
    }
    const auto row = read_row(frame);
    return row != nullptr ? rule_from_row(*row) : rule_without_tables(frame, code);
}

const CfiRow* ModuleRules::row(FrameAddress frame) {
    if (const auto found = rows_.find(frame); found != rows_.end()) {
        return found->second.get();
    }
    if (rows_.size() >= kMaxRows) {
        rows_.clear();
    }
    return rows_.emplace(frame, read_row(frame)).first->second.get();
}

void ModuleRules::modules_changed() {
    rows_.clear();
    absl::erase_if(tables_, [](const auto& entry) { return entry.first->unloaded.has_value(); });
}

} // namespace memleax
