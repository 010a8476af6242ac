// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <vector>

#include <fmt/format.h>

#include "memleax/base/log.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {
/// Longer functions are not looked through.
constexpr std::uint64_t kMostCode = 64ULL * 1024;
} // namespace

Breakpoint* BreakpointTable::find(CodeAddr address) {
    const auto it = table_.find(address);
    return it == table_.end() ? nullptr : it->second.get();
}

bool Breakpoint::sets_trap_action(const arch::Registers& regs) const {
    return is_signal_action && slot && inserted &&
           static_cast<int>(arch::argument(regs, 0)) == SIGTRAP;
}

Breakpoint* BreakpointTable::find_hit(const arch::Registers& regs) {
    if (Breakpoint* executed = find(arch::executed_breakpoint(regs))) {
        return executed;
    }
    const auto it = by_slot_.find(arch::pc(regs));
    if (it != by_slot_.end()) {
        return it->second;
    }
    Breakpoint* waits_at = find(arch::pc(regs));
    return waits_at != nullptr && waits_at->is_signal_action ? waits_at : nullptr;
}

std::vector<Breakpoint*> BreakpointTable::all() {
    std::vector<Breakpoint*> result;
    result.reserve(table_.size());
    for (const auto& [address, breakpoint] : table_) {
        result.push_back(breakpoint.get());
    }
    return result;
}

Result<Breakpoint*> BreakpointTable::insert_at_entry(CodeAddr address, std::uint64_t function_bytes,
                                                     Tid worker) {
    return insert(address, function_bytes, worker);
}

Result<Breakpoint*> BreakpointTable::insert(CodeAddr address, std::uint64_t function_bytes,
                                            Tid worker) {
    if (Breakpoint* known = find(address)) {
        return known;
    }
    RemoteMemory& memory = target_.memory();
    std::array<std::uint8_t, arch::kMaxEntryBytes> bytes{};
    const std::size_t got =
        memory.try_read(address.as_data(), std::as_writable_bytes(std::span(bytes)));
    if (got < arch::kBreakpointBytes.size()) {
        return Error(fmt::format("cannot read the code at {:#x}", address.value()), EFAULT);
    }
    const auto code = std::span(bytes).first(got);
    auto breakpoint = std::make_unique<Breakpoint>();
    breakpoint->patch = CodePatch::breakpoint(address, bytes);
    if (breakpoint->patch.original == breakpoint->patch.patched) {
        // A debugger's, a uprobe's (all processes see those of a system-wide bpftrace), or the
        // program's own assertion: a hit could not be told from ours. Or it is ours.
        return Error(fmt::format("there is a breakpoint at {:#x} already", address.value()))
            .with_advice(
                handler_.is_left_by_another()
                    ? "a memleax that watched it was killed, and its guardian, too; the process "
                      "works on, and can be watched when it has been started anew"
                    : "end the debugger or the uprobe (bpftrace, perf, bcc) that has put it there");
    }
    if (const char* reason = arch::reason_against_breakpoint(code)) {
        return Error(fmt::format("no breakpoint can be at {:#x}: {}", address.value(), reason));
    }
    if (function_bytes != 0) {
        std::vector<std::uint8_t> function(std::min<std::uint64_t>(function_bytes, kMostCode));
        const std::size_t read =
            memory.try_read(address.as_data(), std::as_writable_bytes(std::span(function)));
        const char* reason = read < function_bytes
                                 ? "it is too long"
                                 : arch::reason_against_entry_jump(address, function);
        breakpoint->takes_jump = reason == nullptr;
        breakpoint->code = bytes;
        if (reason != nullptr) {
            log_debug("the function at {:#x} keeps its breakpoint: {}", address.value(), reason);
        }
    }
    if (auto filled = fill_slot(*breakpoint, code, worker); !filled) {
        return std::move(filled).error();
    }

    breakpoint->record = target_.record().add_breakpoint(breakpoint->patch, code, breakpoint->slot,
                                                         breakpoint->takes_jump);
    if (!breakpoint->record) {
        release_slot(*breakpoint);
        return Error("too many places to watch");
    }
    // Masked first: from the write on, a read must not see the breakpoint.
    memory.mask(address.as_data(), breakpoint->patch.original_bytes());
    auto written = breakpoint->patch.put_in(memory);
    if (!written) {
        memory.unmask(address.as_data(), breakpoint->patch.size);
        target_.record().breakpoints[*breakpoint->record].patch = {};
        release_slot(*breakpoint);
        return std::move(written).error();
    }
    breakpoint->inserted = true;
    return table_.emplace(address, std::move(breakpoint)).first->second.get();
}

Result<arch::DisplacedInstruction> BreakpointTable::displace(const Breakpoint& breakpoint,
                                                             std::span<const std::uint8_t> code,
                                                             CodeAddr slot) const {
    return breakpoint.takes_jump ? arch::displace_entry(breakpoint.address(), code, slot)
                                 : arch::displace(breakpoint.address(), code, slot);
}

// Without one, where the instruction cannot be moved.
Result<void> BreakpointTable::fill_slot(Breakpoint& breakpoint, std::span<const std::uint8_t> code,
                                        Tid worker) {
    auto slot = slots_.allocate(breakpoint.address(), worker);
    if (!slot) {
        return std::move(slot).error();
    }
    auto displaced = displace(breakpoint, code, *slot);
    if (!displaced && breakpoint.takes_jump) {
        log_debug("the function at {:#x} keeps its breakpoint: {}", breakpoint.address().value(),
                  displaced.error().message());
        breakpoint.takes_jump = false;
        displaced = displace(breakpoint, code, *slot);
    }
    if (!displaced) {
        slots_.release(*slot);
        log_debug("the instruction at {:#x} is stepped in place: {}", breakpoint.address().value(),
                  displaced.error().message());
        return {};
    }
    // The handler finds the slot by what stands at its end.
    std::array<std::uint8_t, arch::kSlotBytes> filled{};
    std::copy(displaced->code.begin(), displaced->code.end(), filled.begin());
    const std::uint64_t key = breakpoint.address().value();
    std::memcpy(&filled[arch::kSlotCodeBytes], &key, sizeof key);
    auto written = target_.memory().write(slot->as_data(), filled);
    if (!written) {
        slots_.release(*slot);
        return written;
    }
    breakpoint.slot = *slot;
    breakpoint.original_length = displaced->original_length;
    breakpoint.displaced = *std::move(displaced);
    by_slot_.emplace(*slot, &breakpoint);
    return {};
}

void BreakpointTable::release_slot(const Breakpoint& breakpoint) {
    if (breakpoint.slot) {
        by_slot_.erase(*breakpoint.slot);
        slots_.release(*breakpoint.slot);
    }
}

Result<void> BreakpointTable::hold_unwatched(const Breakpoint& breakpoint) {
    if (!breakpoint.slot || !breakpoint.record) {
        return {};
    }
    target_.record().breakpoints[*breakpoint.record].holds = true;
    const std::uint64_t key = breakpoint.address().value() | arch::kSlotHolds;
    return target_.memory().write_object(
        breakpoint.slot->as_data() + static_cast<std::int64_t>(arch::kSlotCodeBytes), key);
}

void BreakpointTable::adopt() {
    handler_.adopt();
    slots_.adopt();
    counters_.adopt();
    const RecoveryRecord& record = target_.record();
    for (std::uint32_t i = 0; i < record.breakpoint_count.load(); ++i) {
        const RecoveryRecord::Breakpoint& entry = record.breakpoints[i];
        if (entry.patch.empty()) {
            continue;
        }
        auto breakpoint = std::make_unique<Breakpoint>();
        breakpoint->patch = entry.patch;
        if (entry.patch.is_jump()) {
            breakpoint->jump = entry.patch;
        }
        breakpoint->record = i;
        if (entry.stands_for != 0) {
            breakpoint->stands_for = CodeAddr(entry.stands_for);
        }
        if (entry.slot != 0) {
            breakpoint->takes_jump = entry.takes_jump;
            breakpoint->code = entry.code;
            auto displaced = displace(*breakpoint, std::span(entry.code).first(entry.code_bytes),
                                      CodeAddr(entry.slot));
            if (displaced) {
                breakpoint->slot = CodeAddr(entry.slot);
                breakpoint->original_length = displaced->original_length;
                breakpoint->displaced = *std::move(displaced);
                by_slot_.emplace(*breakpoint->slot, breakpoint.get());
            }
        }
        breakpoint->is_signal_action = entry.holds;
        breakpoint->inserted = true; // or just before that; restore() looks
        table_.insert_or_assign(breakpoint->address(), std::move(breakpoint));
    }
}

void BreakpointTable::move_to_slot(Tid tid, const arch::Registers& regs,
                                   const Breakpoint& breakpoint) {
    if (target_.has_executed(tid)) {
        return;
    }
    arch::Registers moved = regs;
    if (breakpoint.sets_trap_action(regs)) {
        StoppedThread(tid).set_pc(&moved, breakpoint.address());
        return;
    }
    // Also where its bytes are back: that this is a hit is known by the slot from now on.
    StoppedThread(tid).set_pc(&moved, breakpoint.slot.value_or(breakpoint.address()));
}

void BreakpointTable::move_on_to_slot(Tid tid, arch::Registers regs, const Breakpoint& breakpoint) {
    if (!target_.has_executed(tid)) {
        arch::set_pc(regs, *breakpoint.slot);
        StoppedThread(tid).set_registers(regs);
    }
}

void BreakpointTable::continue_from(Tid tid, arch::Registers* regs, Breakpoint& breakpoint) {
    if (breakpoint.inserted && !breakpoint.slot) {
        step_over(tid, regs, breakpoint);
    } else {
        target_.resume(tid);
    }
}

void BreakpointTable::step_over(Tid tid, arch::Registers* regs, Breakpoint& breakpoint) {
    std::vector<Tid> others;
    for (const auto& [other, thread] : target_.threads()) {
        if (other != tid) {
            others.push_back(other);
        }
    }
    for (const Tid other : others) {
        // One that is would have to wake up just now to get here.
        if (!target_.borrower().is_in_transfer(other)) {
            target_.stop_and_defer(other);
        }
    }
    if (target_.has_executed(tid)) {
        return;
    }
    StoppedThread(tid).set_pc(regs, breakpoint.address());
    const auto lifted =
        target_.memory().write(breakpoint.address().as_data(), breakpoint.patch.original_bytes());
    const auto stepped = target_.parts().stepper.step(tid);
    if (lifted) {
        (void)breakpoint.patch.put_in(target_.memory());
    }
    // A fault of the stepped instruction was deferred, and is delivered from there.
    const auto it = target_.threads().find(tid);
    if (stepped && it != target_.threads().end() && !target_.has_deferred(tid)) {
        target_.resume(tid);
    }
}

bool BreakpointTable::move_out(arch::Registers* regs) const {
    const CodeAddr pc = arch::pc(*regs);
    const CodeAddr slot = slots_.slot_of(pc);
    const auto it = by_slot_.find(slot);
    if (it == by_slot_.end()) {
        return true; // of code that is gone: see forget()
    }
    const Breakpoint& breakpoint = *it->second;
    if (pc == slot || (breakpoint.stands_for && !breakpoint.inserted)) {
        arch::set_pc(*regs, breakpoint.place()); // nothing of it has been executed, but a no-op
        return true;
    }
    // A place behind the first instruction is, or will be, under a jump, and in our own code there
    // is no other way than on.
    if (breakpoint.inserted && (breakpoint.takes_jump || breakpoint.stands_for)) {
        return false;
    }
    const auto offset = static_cast<std::uint64_t>(pc - slot);
    for (const arch::SlotPoint& point : breakpoint.displaced.points) {
        if (point.offset == offset) {
            arch::set_pc(*regs, point.original);
            arch::set_sp(*regs, arch::sp(*regs) + point.sp_adjust);
        }
    }
    return true;
}

bool BreakpointTable::restore(Breakpoint& breakpoint) {
    if (!breakpoint.inserted) {
        return true;
    }
    breakpoint.inserted = false;
    const auto restored = breakpoint.patch.take_out(target_.memory());
    target_.memory().unmask(breakpoint.address().as_data(), breakpoint.patch.size);
    if (!restored && restored.error().errnum() != ESRCH) { // it may have ended meanwhile
        log_error("{}: a breakpoint of ours is left there", restored.error().message());
    }
    return restored && *restored;
}

Result<void> BreakpointTable::put_back(Breakpoint& breakpoint) {
    if (breakpoint.inserted) {
        return {};
    }
    target_.memory().mask(breakpoint.address().as_data(), breakpoint.patch.original_bytes());
    auto written = breakpoint.patch.put_in(target_.memory());
    if (!written) {
        target_.memory().unmask(breakpoint.address().as_data(), breakpoint.patch.size);
        return written;
    }
    breakpoint.inserted = true;
    return {};
}

void BreakpointTable::restore_all() {
    counters_.lower_all();
    // As long as one is left, nobody is to take our handler away (should we die meanwhile).
    for (const bool is_signal_action : {false, true}) {
        for (const auto& [address, breakpoint] : table_) {
            if (breakpoint->is_signal_action == is_signal_action) {
                restore(*breakpoint);
            }
        }
    }
}

Result<void> BreakpointTable::restore_in_copy(RemoteMemory& memory, bool own_pages_go) const {
    for (const auto& [address, breakpoint] : table_) {
        if (own_pages_go && breakpoint->stands_for) {
            continue;
        }
        // The child was copied at some moment: what is there tells whether that was before or after
        // we put this one in.
        const CodePatch& patch = breakpoint->jump.empty() ? breakpoint->patch : breakpoint->jump;
        auto restored = patch.take_out(memory);
        if (!restored) {
            return std::move(restored).error();
        }
    }
    return counters_.lower_in_copy(memory);
}

void BreakpointTable::forget(AddrRange range) {
    counters_.forget(range);
    for (auto it = table_.begin(); it != table_.end();) {
        Breakpoint& breakpoint = *it->second;
        if (!range.contains(it->first)) {
            ++it;
            continue;
        }
        target_.memory().unmask(breakpoint.address().as_data(), breakpoint.patch.size);
        if (breakpoint.record) {
            target_.record().breakpoints[*breakpoint.record].patch = {};
        }
        if (breakpoint.slot) {
            const std::array<std::uint8_t, sizeof(std::uint64_t)> no_key{};
            (void)target_.memory().write(breakpoint.slot->as_data() +
                                             static_cast<std::int64_t>(arch::kSlotCodeBytes),
                                         no_key);
            // The slot is not given out again: a thread may yet stand in it, about to return into
            // code that is gone, and must fault there as it would without us.
            by_slot_.erase(*breakpoint.slot);
        }
        table_.erase(it++);
    }
}

void BreakpointTable::forget_all() {
    by_slot_.clear();
    table_.clear();
    counters_.forget_all();
    slots_.forget();
    handler_.forget();
    target_.record().forget_memory();
}

} // namespace memleax
