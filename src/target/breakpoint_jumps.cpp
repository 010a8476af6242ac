// SPDX-License-Identifier: GPL-3.0-or-later
// BreakpointTable: jumps in place of breakpoints, and the breakpoints in the code that they lead
// to.
#include <algorithm>

#include <fmt/format.h>

#include "memleax/base/log.hpp"
#include "memleax/target/breakpoint.hpp"

namespace memleax {

Result<void> BreakpointTable::put_jumps(std::span<const Jump> jumps) {
    RemoteMemory& memory = target_.memory();
    std::vector<CodePatch> patches;
    for (const auto& [from, to] : jumps) {
        const auto jump = arch::entry_jump(from->address(), to);
        if (!jump || !from->takes_jump || !from->inserted || !from->record) {
            return Error(fmt::format("no jump can be at {:#x}", from->address().value()));
        }
        patches.push_back(CodePatch::jump(from->address(), from->code, *jump));
    }
    for (std::size_t i = 0; i < patches.size(); ++i) {
        Breakpoint& from = *jumps[i].from;
        memory.mask(from.address().as_data(), patches[i].original_bytes());
        target_.record().breakpoints[*from.record].patch = patches[i];
        from.patch = from.jump = patches[i];
    }
    const bool others_run =
        std::any_of(target_.threads().begin(), target_.threads().end(),
                    [this](const auto& each) { return !target_.is_stopped(each.first); });
    auto put = put_jumps_in(patches, memory, others_run || !target_.expected_children().empty());
    if (!put) {
        withdraw_jumps();
    }
    return put;
}

void BreakpointTable::withdraw_jumps() {
    std::vector<Breakpoint*> jumps;
    std::vector<CodePatch> patches;
    for (const auto& [address, breakpoint] : table_) {
        if (breakpoint->inserted && breakpoint->patch.is_jump()) {
            jumps.push_back(breakpoint.get());
            patches.push_back(breakpoint->patch);
        }
    }
    if (const auto made = make_breakpoints_of_jumps(patches, target_.memory());
        !made && made.error().errnum() != ESRCH) { // it may have ended meanwhile
        log_debug("taking jumps out: {}", made.error().message());
    }
    for (Breakpoint* jump : jumps) {
        target_.memory().unmask(jump->address().as_data(), jump->patch.size);
        jump->patch = CodePatch::breakpoint(jump->address(), jump->code);
        target_.memory().mask(jump->address().as_data(), jump->patch.original_bytes());
    }
}

Result<void> BreakpointTable::set_stands_for(Breakpoint& breakpoint, CodeAddr place) {
    if (!breakpoint.slot || !breakpoint.record ||
        breakpoint.displaced.code.size() > std::size_t{Breakpoint::kRetryAt}) {
        return Error(
            fmt::format("the breakpoint at {:#x} has no slot", breakpoint.address().value()));
    }
    const CodeAddr retry = breakpoint.retry();
    const auto jump = arch::entry_jump(retry, place);
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

} // namespace memleax
