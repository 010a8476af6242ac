// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/recovery.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <set>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>

#include "departure.hpp"
#include "memleax/breakpoint.hpp"
#include "memleax/log.hpp"
#include "memleax/process_info.hpp"
#include "memleax/trap_signal.hpp"

namespace memleax {

namespace {

constexpr int kPauseMs = 1;
/// So long we wait for the kernel to take the dead tracer's threads from it.
constexpr int kMostPauses = 20'000;

Tid pid_of(const RecoveryRecord& record) {
    return Tid(record.pid.load());
}

bool is_the_same(const RecoveryRecord& record) {
    const auto info = try_read_process_info(pid_of(record));
    return info && info->start_time == record.start_time;
}

/// As long as the tracer is on its way out, its threads are still taken.
bool wait_until_untraced(Tid pid) {
    for (int i = 0; i < kMostPauses; ++i) {
        const std::vector<Tid> threads = list_threads(pid);
        const bool traced = std::any_of(threads.begin(), threads.end(), [](Tid tid) {
            const auto info = try_read_process_info(tid);
            return info && !info->has_ended() && info->tracer.value() != 0;
        });
        if (!traced) {
            return !threads.empty();
        }
        poll(nullptr, 0, kPauseMs);
    }
    return false;
}

struct OwedSignal {
    Tid tid;
    siginfo_t info;
};

/// Out of the record: from here on it is ours.
std::vector<OwedSignal> owed_signals(RecoveryRecord& record) {
    std::vector<OwedSignal> result;
    for (RecoveryRecord::OwedSignal& entry : record.owed) {
        if (entry.tid.load() != 0) {
            result.push_back({Tid(entry.tid.load()), entry.info});
            entry.tid.store(0);
        }
    }
    record.owed_count.store(0);
    return result;
}

/// A thread that is in the loop behind its mmap has that call's result.
void note_mapping(RecoveryRecord::BorrowedThread& borrowed, const arch::Registers& now) {
    const long result = arch::system_call_result(now);
    const bool executed =
        arch::pc(now) == CodeAddr(borrowed.parking) + std::int64_t{arch::kSyscallBytes.size()};
    if (executed && borrowed.number == SYS_mmap && (result >= 0 || result < -4095)) {
        borrowed.mapped.store(static_cast<std::uint64_t>(result));
    }
}

/// A thread that was executing something for the dead one waits in a loop for its registers, or has
/// them and not its signal mask. Its id, or 0.
Tid return_borrowed_thread(Target& target) {
    RecoveryRecord::BorrowedThread& borrowed = target.record().borrowed;
    const Tid tid(borrowed.tid.load());
    if (tid.value() != 0 && target.stop_and_defer(tid)) {
        arch::Registers now{};
        const AddrRange parking{borrowed.parking, borrowed.parking + arch::kParkingBytes.size()};
        if (target.get_registers(tid, &now) && parking.contains(arch::pc(now).value())) {
            note_mapping(borrowed, now);
            target.set_registers(tid, borrowed.registers);
        }
        if (borrowed.parking_byte_count != 0) {
            (void)target.memory().write(
                RemoteAddr(borrowed.parking),
                std::span(borrowed.parking_bytes).first(borrowed.parking_byte_count));
        }
    }
    borrowed.tid.store(0);
    const Tid masked(borrowed.tid_of_mask.load());
    if (masked.value() != 0 && target.stop_and_defer(masked)) {
        target.set_signal_mask(masked, borrowed.mask);
    }
    borrowed.tid_of_mask.store(0);
    return tid;
}

/// The code is whole again, so that they may run to the stops of what was held back from them.
void give_owed_signals(Target& target, Tid borrowed, const std::vector<OwedSignal>& owed) {
    std::set<Tid> threads;
    if (borrowed.value() != 0) {
        threads.insert(borrowed);
    }
    for (const auto& [tid, info] : owed) {
        target.send_again(tid, info);
        threads.insert(tid);
    }
    for (const Tid tid : threads) {
        if (target.stop_and_defer(tid)) {
            target.advance_to_signal(tid);
        }
    }
}

/// Pages that nobody has got round to writing down.
void unmap_unknown(Target& target) {
    RecoveryRecord::BorrowedThread& borrowed = target.record().borrowed;
    const std::uint64_t begin = borrowed.mapped.exchange(0);
    if (begin == 0 || begin == target.record().handler.begin) {
        return;
    }
    if (const auto worker = target.borrow_thread()) {
        (void)target.system_call(*worker, SYS_munmap, {begin, borrowed.mapped_bytes});
    }
}

/// Has this process, a child, our handler where its parent had it?
bool has_handler(Tid child, const RecoveryRecord& parents) {
    const std::span<const std::uint8_t> code = arch::trap_handler_code().code;
    auto memory = RemoteMemory::open(child);
    std::vector<std::uint8_t> there(code.size());
    return memory &&
           memory->try_read_unmasked(RemoteAddr(parents.handler.begin),
                                     std::as_writable_bytes(std::span(there))) == there.size() &&
           std::equal(code.begin(), code.end(), there.begin());
}

/// Was it executing something for the dead one?
bool is_borrowed(Tid child, const RecoveryRecord& parents) {
    return parents.borrowed.tid.load() == child.value() ||
           parents.borrowed.tid_of_mask.load() == child.value();
}

/// What is to be put back in a child that has a copy of what its parent had; null if it has none.
std::shared_ptr<RecoveryRecord> record_of_child(Tid child, const RecoveryRecord& parents) {
    const auto info = try_read_process_info(child);
    const bool handler_is_there = has_handler(child, parents);
    if (!info || !(handler_is_there || is_borrowed(child, parents))) {
        return nullptr;
    }
    auto record = parents.copy_for(child.value(), info->start_time);
    if (!handler_is_there) { // it was the last that was to be taken out
        record->handler = {};
        record->handler_in_force.store(0);
    }
    return record;
}

/// Nobody counts any more.
class Indifferent final : public DepartureObserver {
    void on_late_hit(Tid /*tid*/, const arch::Registers& /*regs*/,
                     const Breakpoint& /*breakpoint*/) override {}
    void on_thread_gone(const ThreadGone& /*gone*/) override {}
};

} // namespace

Result<void> restore_code(const RecoveryRecord& record) {
    const Tid pid = pid_of(record);
    auto memory = RemoteMemory::open(pid);
    if (!memory) {
        return std::move(memory).error();
    }
    if (!is_the_same(record)) {
        return Error(fmt::format("process {} has ended", pid.value()));
    }
    Result<void> result;
    for (std::uint32_t i = 0; i < record.breakpoint_count.load(); ++i) {
        const RecoveryRecord::Breakpoint& entry = record.breakpoints[i];
        std::array<std::uint8_t, arch::kBreakpointBytes.size()> now{};
        const RemoteAddr at(entry.address);
        if (entry.address == 0 ||
            memory->try_read_unmasked(at, std::as_writable_bytes(std::span(now))) != now.size() ||
            now != arch::kBreakpointBytes) {
            continue;
        }
        auto written = memory->write(at, std::span(entry.bytes).first(now.size()));
        if (!written) {
            result = std::move(written);
        }
    }
    return result;
}

Result<void> restore_process(const std::shared_ptr<RecoveryRecord>& record) {
    const Tid pid = pid_of(*record);
    if (!wait_until_untraced(pid) || !is_the_same(*record)) {
        return Error(fmt::format("process {} has ended, or somebody else traces it", pid.value()));
    }
    const std::vector<OwedSignal> owed = owed_signals(*record);
    Tracer tracer(nullptr);
    auto target = Target::seize(tracer, pid, record);
    if (!target) {
        return std::move(target).error();
    }
    BreakpointTable breakpoints(**target);
    breakpoints.adopt();
    breakpoints.restore_all();
    const Tid borrowed = return_borrowed_thread(**target);
    give_owed_signals(**target, borrowed, owed);
    unmap_unknown(**target);
    TrapSignal trap_signal(**target, breakpoints.handler());
    trap_signal.adopt(); // looks at the masks
    Indifferent nobody;
    Departure departure(**target, breakpoints, trap_signal, nobody, true);
    departure.complete();
    return {};
}

void restore_children(const RecoveryRecord& before) {
    const Tid pid = pid_of(before);
    if (before.handler.begin == 0) {
        return;
    }
    for (const Tid thread : list_threads(pid)) {
        for (const Tid child : list_children(pid, thread)) {
            const auto record = record_of_child(child, before);
            if (record == nullptr) {
                continue;
            }
            (void)restore_code(*record);
            const auto childs = record->copy_for(child.value(), record->start_time);
            if (const auto restored = restore_process(record); !restored) {
                log_debug("child {}: {}", child.value(), restored.error().message());
            }
            restore_children(*childs);
        }
    }
}

} // namespace memleax
