// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cerrno>
#include <cstring>

#include <fmt/format.h>

#include "memleax/base/log.hpp"
#include "memleax/target/breakpoint.hpp"

namespace memleax {

Breakpoint* BreakpointTable::find(CodeAddr address) {
    const auto it = table_.find(address);
    return it == table_.end() ? nullptr : it->second.get();
}

Breakpoint* BreakpointTable::find_hit(const arch::Registers& regs) {
    if (Breakpoint* executed = find(arch::executed_breakpoint(regs))) {
        return executed;
    }
    const auto it = by_slot_.find(arch::pc(regs));
    return it == by_slot_.end() ? nullptr : it->second;
}

std::vector<Breakpoint*> BreakpointTable::all() {
    std::vector<Breakpoint*> result;
    result.reserve(table_.size());
    for (const auto& [address, breakpoint] : table_) {
        result.push_back(breakpoint.get());
    }
    return result;
}

Result<Breakpoint*> BreakpointTable::insert(CodeAddr address, Tid worker) {
    if (Breakpoint* known = find(address)) {
        return known;
    }
    RemoteMemory& memory = target_.memory();
    std::array<std::uint8_t, arch::kMaxInstructionBytes> bytes{};
    const std::size_t got =
        memory.try_read(address.as_data(), std::as_writable_bytes(std::span(bytes)));
    if (got < arch::kBreakpointBytes.size()) {
        return Error(fmt::format("cannot read the code at {:#x}", address.value()), EFAULT);
    }
    auto breakpoint = std::make_unique<Breakpoint>();
    breakpoint->patch = CodePatch::breakpoint(address, bytes);
    if (breakpoint->patch.original == breakpoint->patch.patched) {
        // A debugger's, a uprobe's (all processes see those of a system-wide bpftrace), or the
        // program's own assertion: a hit could not be told from ours.
        return Error(fmt::format("there is a breakpoint at {:#x} already", address.value()))
            .with_advice(
                "end the debugger or the uprobe (bpftrace, perf, bcc) that has put it there");
    }

    if (const char* reason = arch::reason_against_breakpoint(std::span(bytes).first(got))) {
        return Error(fmt::format("no breakpoint can be at {:#x}: {}", address.value(), reason));
    }

    auto slot = slots_.allocate(address, worker);
    if (!slot) {
        return std::move(slot).error();
    }
    auto displaced = arch::displace(address, std::span(bytes).first(got), *slot);
    if (displaced) {
        // The handler finds the slot by what stands at its end.
        std::array<std::uint8_t, arch::kSlotBytes> filled{};
        std::copy(displaced->code.begin(), displaced->code.end(), filled.begin());
        const std::uint64_t key = address.value();
        std::memcpy(&filled[arch::kSlotCodeBytes], &key, sizeof key);
        auto written = memory.write(slot->as_data(), filled);
        if (!written) {
            slots_.release(*slot);
            return std::move(written).error();
        }
        breakpoint->slot = *slot;
        breakpoint->original_length = displaced->original_length;
        breakpoint->displaced = *std::move(displaced);
        by_slot_.emplace(*slot, breakpoint.get());
    } else {
        slots_.release(*slot);
        log_debug("the instruction at {:#x} is stepped in place: {}", address.value(),
                  displaced.error().message());
    }

    breakpoint->record = target_.record().add_breakpoint(
        breakpoint->patch, std::span(bytes).first(got), breakpoint->slot);
    const auto give_slot_back = [&] {
        if (breakpoint->slot) {
            by_slot_.erase(*breakpoint->slot);
            slots_.release(*breakpoint->slot);
        }
    };
    if (!breakpoint->record) {
        give_slot_back();
        return Error("too many places to watch");
    }
    // Masked first: from the write on, a read must not see the breakpoint.
    memory.mask(address.as_data(), breakpoint->patch.original_bytes());
    auto written = breakpoint->patch.put_in(memory);
    if (!written) {
        memory.unmask(address.as_data(), breakpoint->patch.size);
        target_.record().breakpoints[*breakpoint->record].patch = {};
        give_slot_back();
        return std::move(written).error();
    }
    breakpoint->inserted = true;
    return table_.emplace(address, std::move(breakpoint)).first->second.get();
}

Result<void> BreakpointTable::hold_unwatched(const Breakpoint& breakpoint) {
    if (!breakpoint.slot || !breakpoint.record) {
        return {};
    }
    target_.record().breakpoints[*breakpoint.record].holds = true;
    const std::uint64_t key = breakpoint.address().value() | arch::kSlotHolds;
    return target_.memory().write(
        breakpoint.slot->as_data() + static_cast<std::int64_t>(arch::kSlotCodeBytes),
        std::span(reinterpret_cast<const std::uint8_t*>(&key), sizeof key));
}

void BreakpointTable::adopt() {
    handler_.adopt();
    slots_.adopt();
    const RecoveryRecord& record = target_.record();
    for (std::uint32_t i = 0; i < record.breakpoint_count.load(); ++i) {
        const RecoveryRecord::Breakpoint& entry = record.breakpoints[i];
        if (entry.patch.empty()) {
            continue;
        }
        auto breakpoint = std::make_unique<Breakpoint>();
        breakpoint->patch = entry.patch;
        breakpoint->record = i;
        if (entry.slot != 0) {
            auto displaced =
                arch::displace(breakpoint->address(), std::span(entry.code).first(entry.code_bytes),
                               CodeAddr(entry.slot));
            if (displaced) {
                breakpoint->slot = CodeAddr(entry.slot);
                breakpoint->original_length = displaced->original_length;
                breakpoint->displaced = *std::move(displaced);
                by_slot_.emplace(*breakpoint->slot, breakpoint.get());
            }
        }
        breakpoint->inserted = true; // or just before that; restore() looks
        table_.insert_or_assign(breakpoint->address(), std::move(breakpoint));
    }
}

void BreakpointTable::move_to_slot(Tid tid, const arch::Registers& regs,
                                   const Breakpoint& breakpoint) {
    arch::Registers moved = regs;
    // Where its bytes are back, the instruction itself is next.
    target_.set_pc(tid, &moved,
                   breakpoint.inserted && breakpoint.slot ? *breakpoint.slot
                                                          : breakpoint.address());
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
        if (!target_.is_in_transfer(other)) { // it would have to wake up just now to get here
            target_.stop_and_defer(other);
        }
    }
    target_.set_pc(tid, regs, breakpoint.address());
    const auto lifted =
        target_.memory().write(breakpoint.address().as_data(), breakpoint.patch.original_bytes());
    const auto stepped = target_.step(tid);
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
    const auto offset = static_cast<std::uint64_t>(pc - slot);
    for (const arch::SlotPoint& point : it->second->displaced.points) {
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

void BreakpointTable::restore_all() {
    for (const auto& [address, breakpoint] : table_) {
        restore(*breakpoint);
    }
}

Result<void> BreakpointTable::restore_in_copy(Tid child) const {
    auto memory = RemoteMemory::open(child);
    if (!memory) {
        return std::move(memory).error();
    }
    for (const auto& [address, breakpoint] : table_) {
        // The child was copied at some moment: what is there tells whether that was before or after
        // we put this one in.
        auto restored = breakpoint->patch.take_out(*memory);
        if (!restored) {
            return std::move(restored).error();
        }
    }
    return {};
}

void BreakpointTable::forget(AddrRange range) {
    for (auto it = table_.begin(); it != table_.end();) {
        Breakpoint& breakpoint = *it->second;
        if (!range.contains(it->first.value())) {
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
    slots_.forget();
    handler_.forget();
    target_.record().forget_memory();
}

} // namespace memleax
