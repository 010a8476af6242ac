// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/recovery_record.hpp"

#include <algorithm>

namespace memleax {

std::optional<std::uint32_t> RecoveryRecord::add_breakpoint(const CodePatch& patch,
                                                            std::span<const std::uint8_t> code,
                                                            std::optional<CodeAddr> slot,
                                                            bool takes_jump) {
    const std::uint32_t index = breakpoint_count.load(std::memory_order_relaxed);
    if (index == kMaxBreakpoints || is_copy.load(std::memory_order_relaxed) != 0) {
        return std::nullopt;
    }
    Breakpoint& entry = breakpoints[index];
    entry.patch = patch;
    entry.slot = slot ? slot->value() : 0;
    entry.holds = false;
    entry.takes_jump = takes_jump;
    entry.stands_for = 0;
    entry.code_bytes = static_cast<std::uint8_t>(std::min(code.size(), entry.code.size()));
    std::copy_n(code.begin(), entry.code_bytes, entry.code.begin());
    breakpoint_count.store(index + 1, std::memory_order_release);
    return index;
}

// The reader comes after our death: what it needs is that the compiler keeps the order.
void RecoveryRecord::set_patch(std::uint32_t index, const CodePatch& patch) {
    CodePatch& entry = breakpoints[index].patch;
    entry.original = patch.original;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    entry.size = patch.size;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    entry.patched = patch.patched;
}

namespace {

template <std::size_t N>
bool add_range(std::array<AddrRange, N>& ranges, std::atomic<std::uint32_t>& count,
               AddrRange range) {
    const std::uint32_t index = count.load(std::memory_order_relaxed);
    if (index == N) {
        return false;
    }
    ranges[index] = range;
    count.store(index + 1, std::memory_order_release);
    return true;
}

template <std::size_t N>
void copy_ranges(const std::array<AddrRange, N>& from, const std::atomic<std::uint32_t>& count,
                 std::array<AddrRange, N>& to, std::atomic<std::uint32_t>& to_count) {
    std::copy_n(from.begin(), count.load(), to.begin());
    to_count.store(count.load());
}

} // namespace

bool RecoveryRecord::add_region(AddrRange region) {
    return add_range(regions, region_count, region);
}

bool RecoveryRecord::add_agent_code(AddrRange range) {
    return add_range(agent_code, agent_code_count, range);
}

bool RecoveryRecord::add_agent_data(AddrRange range) {
    return add_range(agent_data, agent_data_count, range);
}

// Empty until the last store, whatever it was before: who reads it may do so after our death.
void RecoveryRecord::set_handler(AddrRange page) {
    std::atomic_ref(handler.end).store(0);
    std::atomic_ref(handler.begin).store(page.begin);
    std::atomic_ref(handler.end).store(page.end);
}

// In its place, by one store: whoever reads it next may do so after our death.
void RecoveryRecord::on_unmapped(AddrRange range) {
    const auto strike_off = [range](std::span<AddrRange> ranges) {
        for (AddrRange& each : ranges) {
            if (each == range) {
                std::atomic_ref(each.end).store(each.begin);
            }
        }
    };
    strike_off({&handler, 1});
    strike_off(std::span(regions).first(region_count.load()));
    strike_off(std::span(agent_code).first(agent_code_count.load()));
    strike_off(std::span(agent_data).first(agent_data_count.load()));
}

bool RecoveryRecord::tells_of(std::uint64_t begin) const {
    const auto is_in = [begin](std::span<const AddrRange> ranges) {
        return std::any_of(ranges.begin(), ranges.end(), [begin](const AddrRange& each) {
            return each.begin == begin && !each.empty();
        });
    };
    return is_in({&handler, 1}) || is_in(std::span(regions).first(region_count.load())) ||
           is_in(std::span(agent_code).first(agent_code_count.load())) ||
           is_in(std::span(agent_data).first(agent_data_count.load()));
}

std::shared_ptr<RecoveryRecord> RecoveryRecord::copy_for(std::int32_t child,
                                                         std::uint64_t childs_start_time) const {
    auto copy = RecoveryFile::private_record(breakpoint_count.load());
    copy->pid.store(child);
    copy->start_time = childs_start_time;
    copy->is_copy.store(1);
    // Perhaps the child's own.
    copy->borrowed.mask = borrowed.mask;
    copy->borrowed.lent_mask = borrowed.lent_mask;
    copy->borrowed.tid_of_mask.store(borrowed.tid_of_mask.load());
    copy->borrowed.registers = borrowed.registers;
    copy->borrowed.discarded = borrowed.discarded;
    copy->borrowed.code = borrowed.code;
    copy->borrowed.code_bytes = borrowed.code_bytes;
    copy->borrowed.code_byte_count = borrowed.code_byte_count;
    copy->borrowed.result_at = borrowed.result_at;
    copy->borrowed.number = borrowed.number;
    copy->borrowed.tid.store(borrowed.tid.load());
    copy->handler = handler;
    copy->set_target_action(target_action());
    copy->handler_may_be_saved.store(handler_may_be_saved.load());
    copy->handler_in_force.store(handler_in_force.load());
    copy_ranges(regions, region_count, copy->regions, copy->region_count);
    copy_ranges(agent_code, agent_code_count, copy->agent_code, copy->agent_code_count);
    copy_ranges(agent_data, agent_data_count, copy->agent_data, copy->agent_data_count);
    std::copy_n(breakpoints.begin(), breakpoint_count.load(), copy->breakpoints.begin());
    copy->breakpoint_count.store(breakpoint_count.load());
    for (std::size_t i = 0; i < counters.size(); ++i) {
        copy->counters[i].address = counters[i].address;
        copy->counters[i].before = counters[i].before;
        copy->counters[i].step.store(counters[i].step.load());
    }
    return copy;
}

void RecoveryRecord::forget_memory() {
    breakpoint_count.store(0);
    region_count.store(0);
    agent_code_count.store(0);
    agent_data_count.store(0);
    handler_in_force.store(0);
    handler_may_be_saved.store(0);
    set_handler({});
    for (Counter& counter : counters) {
        if (counter.step.load() != Counter::Step::unused) { // it lies in many pages
            counter.step.store(Counter::Step::unused);
        }
    }
    for (BlockingThread& entry : blocking) {
        if (entry.tid == 0) {
            break;
        }
        entry.tid = 0;
    }
}

void RecoveryRecord::set_blocking(Tid tid, std::uint64_t mask, bool unblocked) {
    // Entries have no holes: the first unused one ends them.
    for (BlockingThread& entry : blocking) {
        if (entry.tid == 0 || entry.tid == tid.value()) {
            entry.mask = mask;
            entry.unblocked = unblocked ? 1 : 0;
            std::atomic_ref(entry.tid).store(tid.value(), std::memory_order_release);
            return;
        }
    }
}

void RecoveryRecord::forget_blocking(Tid tid) {
    const auto end = std::find_if(blocking.begin(), blocking.end(),
                                  [](const BlockingThread& entry) { return entry.tid == 0; });
    const auto it = std::find_if(blocking.begin(), end, [tid](const BlockingThread& entry) {
        return entry.tid == tid.value();
    });
    if (it != end) {
        *it = *(end - 1);
        (end - 1)->tid = 0;
    }
}

void RecoveryRecord::owe(Tid tid, const siginfo_t& info) {
    for (OwedSignal& entry : owed) {
        if (entry.tid.load(std::memory_order_relaxed) == 0) {
            entry.info = info;
            entry.tid.store(tid.value(), std::memory_order_release);
            ++owed_count;
            return;
        }
    }
}

// In place, so that each is there all the time, whenever we die.
void RecoveryRecord::replace_owed(Tid tid, std::span<const siginfo_t> signals) {
    auto next = signals.begin();
    for (OwedSignal& entry : owed) {
        if (entry.tid.load(std::memory_order_relaxed) != tid.value()) {
            continue;
        }
        if (next != signals.end()) {
            entry.info = *next++;
        } else {
            entry.tid.store(0, std::memory_order_release);
            --owed_count;
        }
    }
    for (; next != signals.end(); ++next) {
        owe(tid, *next);
    }
}

void RecoveryRecord::settle_owed(Tid tid, const siginfo_t& info) {
    const auto same = std::find_if(owed.begin(), owed.end(), [&](const OwedSignal& entry) {
        return entry.tid.load(std::memory_order_relaxed) == tid.value() &&
               entry.info.si_signo == info.si_signo && entry.info.si_code == info.si_code &&
               entry.info.si_pid == info.si_pid && entry.info.si_uid == info.si_uid &&
               entry.info.si_value.sival_ptr == info.si_value.sival_ptr;
    });
    if (same == owed.end()) {
        settle_owed(tid, info.si_signo);
        return;
    }
    same->tid.store(0, std::memory_order_release);
    --owed_count;
}

void RecoveryRecord::settle_owed(Tid tid, int signal) {
    for (OwedSignal& entry : owed) {
        if (entry.tid.load(std::memory_order_relaxed) == tid.value() &&
            (signal == 0 || entry.info.si_signo == signal)) {
            entry.tid.store(0, std::memory_order_release);
            --owed_count;
            if (signal != 0) {
                return;
            }
        }
    }
}

} // namespace memleax
