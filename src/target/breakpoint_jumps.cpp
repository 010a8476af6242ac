// SPDX-License-Identifier: GPL-3.0-or-later
// BreakpointTable: jumps in place of breakpoints, and the breakpoints in the code that they lead
// to.
#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "memleax/base/log.hpp"
#include "memleax/target/breakpoint.hpp"

namespace memleax {

Result<void> BreakpointTable::prepare_jumps(std::span<const Jump> jumps) {
    RemoteMemory& memory = target_.memory();
    std::vector<CodePatch> patches;
    for (const auto& [from, to] : jumps) {
        const auto jump = arch::entry_jump(from->address(), from->code, to);
        // The record, by which the guardian knows what is ours, tells of one at each place.
        const bool has_one =
            from->patch.is_jump() ||
            std::any_of(patches.begin(), patches.end(), [from = from](const CodePatch& other) {
                return other.address == from->address();
            });
        if (!jump || has_one || !from->takes_jump || !from->inserted || !from->record) {
            return Error(fmt::format("no jump can be at {:#x}", from->address().value()));
        }
        patches.push_back(CodePatch::jump(from->address(), from->code, *jump));
    }
    for (std::size_t i = 0; i < patches.size(); ++i) {
        Breakpoint& from = *jumps[i].from;
        memory.mask(from.address().as_data(), patches[i].original_bytes());
        target_.record().set_patch(*from.record, patches[i]);
        from.patch = from.jump = patches[i];
    }
    return write_behind_breakpoints(patches, memory);
}

Result<void> BreakpointTable::complete_jumps(std::span<Breakpoint* const> jumps) {
    std::vector<CodePatch> patches;
    for (const Breakpoint* breakpoint : jumps) {
        if (breakpoint->inserted && breakpoint->patch.is_jump()) {
            patches.push_back(breakpoint->patch);
        }
    }
    return write_over_breakpoints(patches, target_.memory());
}

std::vector<CodePatch> BreakpointTable::jumps() const {
    std::vector<CodePatch> result;
    for (const auto& [address, breakpoint] : table_) {
        if (breakpoint->inserted && breakpoint->patch.is_jump()) {
            result.push_back(breakpoint->patch);
        }
    }
    return result;
}

namespace {

void note_failure(const Result<void>& withdrawn) {
    if (!withdrawn && withdrawn.error().errnum() != ESRCH) { // it may have ended meanwhile
        log_debug("taking jumps out: {}", withdrawn.error().message());
    }
}

} // namespace

void BreakpointTable::begin_withdrawal() {
    note_failure(put_breakpoints_on_jumps(jumps(), target_.memory()));
}

void BreakpointTable::restore_behind_withdrawn() {
    note_failure(restore_behind_breakpoints(jumps(), target_.memory()));
}

void BreakpointTable::end_withdrawal() {
    for (const auto& [address, breakpoint] : table_) {
        if (breakpoint->inserted && breakpoint->patch.is_jump()) {
            target_.memory().unmask(address.as_data(), breakpoint->patch.size);
            breakpoint->patch = CodePatch::breakpoint(address, breakpoint->code);
            target_.memory().mask(address.as_data(), breakpoint->patch.original_bytes());
        }
    }
}

void BreakpointTable::withdraw_jumps() {
    note_failure(make_breakpoints_of_jumps(jumps(), target_.memory()));
    end_withdrawal();
}

Result<void> BreakpointTable::set_stands_for(Breakpoint& breakpoint, CodeAddr place) {
    if (!breakpoint.slot || !breakpoint.record ||
        breakpoint.displaced.code.size() > std::size_t{Breakpoint::kRetryAt}) {
        return Error(
            fmt::format("the breakpoint at {:#x} has no slot", breakpoint.address().value()));
    }
    const CodeAddr retry = breakpoint.retry();
    const auto jump = arch::plain_jump(retry, place);
    if (!jump) {
        return Error(
            fmt::format("no jump leads from {:#x} to {:#x}", retry.value(), place.value()));
    }
    if (auto written = target_.memory().write(retry.as_data(), *jump); !written) {
        return written;
    }
    breakpoint.stands_for = place;
    target_.record().breakpoints[*breakpoint.record].stands_for = place.value();
    return {};
}

bool BreakpointTable::is_under_jump(CodeAddr address) const {
    return std::any_of(table_.begin(), table_.end(), [address](const auto& each) {
        const std::uint64_t begin = each.first.value();
        return each.second->takes_jump &&
               AddrRange{begin, begin + arch::kEntryJumpBytes}.contains(address.value());
    });
}

bool BreakpointTable::any_probe_in(AddrRange range) const {
    return std::any_of(table_.begin(), table_.end(), [range](const auto& each) {
        return each.second->probe >= 0 && range.contains(each.first.value());
    });
}

} // namespace memleax
