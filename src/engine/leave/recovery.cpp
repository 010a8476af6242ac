// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/engine/recovery.hpp"

#include <algorithm>
#include <array>
#include <csignal>
#include <set>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <poll.h>
#include <sys/syscall.h>

#include "detacher.hpp"
#include "inline/agent_pages.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/memory_sharers.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/trap_signal.hpp"
#include "own_unwinder.hpp"
#include "thaw.hpp"

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
    if (executed && borrowed.number == SYS_mmap && !is_errno(result)) {
        borrowed.mapped.store(static_cast<std::uint64_t>(result));
    }
}

/// It has other registers or another mask than its own: there is no other way than to wait for its
/// stop, or for its end.
bool stop_or_see_end(Target& target, Tid tid) {
    while (target.threads().contains(tid)) {
        if (target.stop_and_defer(tid)) {
            return true;
        }
        const auto kernel = try_read_kernel_state(target.pid(), tid);
        if (!kernel || kernel->has_ended()) {
            break;
        }
        poll(nullptr, 0, kPauseMs);
    }
    return false;
}

/// Is this the mask that holds signals back while a thread executes something for us
/// (remote_step.cpp)? Else the thread's own, `own`, is in force again, and it may have changed it
/// since: who is in pthread_create blocks everything, for a moment.
bool holds_back(std::uint64_t mask, std::uint64_t own) {
    constexpr std::uint64_t kNever = signal_bit(SIGKILL) | signal_bit(SIGSTOP);
    constexpr std::uint64_t kOthers = ~(kExceptionSignals | kNever);
    const std::uint64_t exceptions = mask & kExceptionSignals & ~signal_bit(SIGTRAP);
    return (mask & kOthers) == kOthers && (exceptions & ~own) == 0;
}

/// Asleep in a call that it has made itself: it got its registers back before the tracer died, and
/// may be in a transfer that a stop would cut short.
bool sleeps_by_itself(Tid pid, Tid tid, AddrRange parking) {
    const auto kernel = try_read_kernel_state(pid, tid);
    return kernel && (kernel->state == 'S' || kernel->state == 'D') && kernel->system_call &&
           !parking.contains(kernel->pc.value());
}

/// It may be in our handler, for the step of the call that it executed: where it stands then is not
/// yet where that call has left it. Out of there it gets by itself, and soon.
void leave_handler(Target& target, Tid tid, AddrRange parking) {
    const AddrRange page = target.record().handler;
    arch::Registers now{};
    for (const Patience patience(kMostMsForOthers);
         target.get_registers(tid, &now) && page.contains(arch::pc(now).value()) &&
         !parking.contains(arch::pc(now).value()) && !patience.is_over();) {
        target.let_run_on(tid);
        if (!stop_or_see_end(target, tid)) {
            return;
        }
    }
}

/// A thread that was executing something for the dead one waits in a loop for its registers, or has
/// them and not its signal mask. Its id, or 0 if there is none, or none that need be stopped.
Tid return_borrowed_thread(Target& target) {
    RecoveryRecord::BorrowedThread& borrowed = target.record().borrowed;
    const AddrRange parking{borrowed.parking, borrowed.parking + arch::kParkingBytes.size()};
    Tid tid(borrowed.tid.load());
    if (tid.value() != 0 && sleeps_by_itself(target.pid(), tid, parking)) {
        tid = Tid();
    }
    if (tid.value() != 0 && stop_or_see_end(target, tid)) {
        arch::Registers now{};
        leave_handler(target, tid, parking);
        if (target.get_registers(tid, &now) && parking.contains(arch::pc(now).value())) {
            note_mapping(borrowed, now);
            target.set_registers(tid, borrowed.registers);
        }
    }
    // Also if it has ended since, or has its own registers.
    if (borrowed.tid.load() != 0 && borrowed.parking_byte_count != 0) {
        (void)target.memory().write(
            RemoteAddr(borrowed.parking),
            std::span(borrowed.parking_bytes).first(borrowed.parking_byte_count));
    }
    borrowed.tid.store(0);
    const Tid masked(borrowed.tid_of_mask.load());
    const auto info = masked.value() != 0 ? try_read_process_info(masked) : std::nullopt;
    if (info && holds_back(info->blocked_signals, borrowed.mask) &&
        stop_or_see_end(target, masked) &&
        holds_back(target.signal_mask(masked).value_or(0), borrowed.mask)) {
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

/// A page that nobody has got round to writing down; empty if there is none.
AddrRange unknown_page(RecoveryRecord& record) {
    const std::uint64_t begin = record.borrowed.mapped.exchange(0);
    if (begin == 0 || begin == record.handler.begin) {
        return {};
    }
    return {begin, begin + record.borrowed.mapped_bytes};
}

/// What this process has where a record tells of a handler.
enum class HandlersPlace { handler, nothing_yet, something_else };

HandlersPlace look_for_handler(Tid pid, const RecoveryRecord& record) {
    const std::span<const std::uint8_t> code = arch::trap_handler_code().code;
    auto memory = RemoteMemory::open(pid);
    std::vector<std::uint8_t> there(code.size());
    if (!memory ||
        memory->try_read_unmasked(RemoteAddr(record.handler.begin),
                                  std::as_writable_bytes(std::span(there))) != there.size()) {
        return HandlersPlace::something_else;
    }
    if (std::equal(code.begin(), code.end(), there.begin())) {
        return HandlersPlace::handler;
    }
    const bool empty = std::all_of(there.begin(), there.end(), [](auto byte) { return byte == 0; });
    return empty ? HandlersPlace::nothing_yet : HandlersPlace::something_else;
}

void forget_handler(RecoveryRecord& record) {
    record.handler = {};
    record.handler_in_force.store(0);
}

/// Was it executing something for the dead one?
bool is_borrowed(Tid child, const RecoveryRecord& parents) {
    return parents.borrowed.tid.load() == child.value() ||
           parents.borrowed.tid_of_mask.load() == child.value();
}

/// What is to be put back in a child that has a copy of what its parent had; null if it has none.
std::shared_ptr<RecoveryRecord> record_of_child(Tid child, const RecoveryRecord& parents) {
    const auto info = try_read_process_info(child);
    const bool handler_is_there = look_for_handler(child, parents) == HandlersPlace::handler;
    if (!info || !(handler_is_there || is_borrowed(child, parents))) {
        return nullptr;
    }
    auto record = parents.copy_for(child.value(), info->start_time);
    if (!handler_is_there) { // it was the last that was to be taken out
        forget_handler(*record);
    }
    return record;
}

/// How many ancestors it has.
int depth_of(Tid pid) {
    constexpr int kMost = 100; // the way up is not one moment's
    int depth = 0;
    for (auto info = try_read_process_info(pid); info && info->parent.value() > 0 && depth < kMost;
         info = try_read_process_info(info->parent)) {
        ++depth;
    }
    return depth;
}

/// The guardian counts nothing.
class Indifferent final : public DetachObserver {
    void on_late_hit(Tid /*tid*/, const arch::Registers& /*regs*/,
                     const Breakpoint& /*breakpoint*/) override {}
    void on_thread_gone(const ThreadGone& /*gone*/) override {}
};

std::vector<CodePatch> jumps_of(const RecoveryRecord& record) {
    std::vector<CodePatch> jumps;
    for (std::uint32_t i = 0; i < record.breakpoint_count.load(); ++i) {
        if (record.breakpoints[i].patch.is_jump()) {
            jumps.push_back(record.breakpoints[i].patch);
        }
    }
    return jumps;
}

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
    Result<void> result = make_breakpoints_of_jumps(jumps_of(record), *memory);
    // A thread that waits in our handler (kSlotHolds) goes on as soon as the code there is whole,
    // and must not meet a breakpoint then: it may be about to take the handler away.
    for (const bool held : {false, true}) {
        for (std::uint32_t i = 0; i < record.breakpoint_count.load(); ++i) {
            const RecoveryRecord::Breakpoint& entry = record.breakpoints[i];
            if (entry.holds != held) {
                continue;
            }
            if (auto restored = entry.patch.take_out(*memory); !restored) {
                result = std::move(restored).error();
            }
        }
    }
    return result;
}

namespace {

/// By a thread that ends afterwards (see Target).
Result<void> restore_in_this_thread(const std::shared_ptr<RecoveryRecord>& record) {
    const Tid pid = pid_of(*record);
    if (!wait_until_untraced(pid) || !is_the_same(*record)) {
        return Error(fmt::format("process {} has ended, or somebody else traces it", pid.value()));
    }
    await_thaw(pid); // a borrowed thread's registers are put back first of all
    const std::vector<OwedSignal> owed = owed_signals(*record);
    Tracer tracer(nullptr);
    auto target = Target::seize(tracer, pid, record);
    if (!target) {
        return std::move(target).error();
    }
    const Tid borrowed = return_borrowed_thread(**target);
    // The call that it stood before may have been the last page's end.
    if (record->handler.begin != 0 &&
        look_for_handler(pid, *record) == HandlersPlace::something_else) {
        forget_handler(*record);
    }
    BreakpointTable breakpoints(**target);
    AgentPages agent(**target);
    breakpoints.own_codes().add_first(&agent);
    breakpoints.adopt();
    breakpoints.withdraw_jumps();
    breakpoints.restore_all();
    give_owed_signals(**target, borrowed, owed);
    TrapSignal trap_signal(**target, breakpoints.handler());
    trap_signal.adopt(); // looks at the masks
    Indifferent nobody;
    OwnUnwinder unwinder(**target);
    Detacher detacher(**target, breakpoints, trap_signal, nobody, true,
                      [&]() -> Unwinder& { return unwinder.get(); });
    detacher.unmap_too(unknown_page(*record));
    detacher.complete();
    return {};
}

} // namespace

Result<void> restore_process(const std::shared_ptr<RecoveryRecord>& record) {
    Result<void> done;
    std::thread([&] { done = restore_in_this_thread(record); }).join();
    return done;
}

namespace {

/// Nothing if there is nothing to restore.
void restore_child(const std::shared_ptr<RecoveryRecord>& record) {
    if (record == nullptr) {
        return;
    }
    (void)restore_code(*record);
    if (const auto restored = restore_process(record); !restored) {
        log_debug("child {}: {}", pid_of(*record).value(), restored.error().message());
    }
}

} // namespace

void restore_borrowed_child(RecoveryRecord& before) {
    const Tid pid = pid_of(before);
    const Tid with_registers(before.borrowed.tid.load());
    const Tid child =
        with_registers.value() != 0 ? with_registers : Tid(before.borrowed.tid_of_mask.load());
    // One with the parent's memory is restored with it.
    if (child.value() != 0 && !is_thread_of(pid, child) &&
        program_identity(child) == program_identity(pid) && !shares_memory(pid, child)) {
        restore_child(record_of_child(child, before));
    }
    before.borrowed.tid.store(0);
    before.borrowed.tid_of_mask.store(0);
}

void restore_children(const RecoveryRecord& before, const std::set<Tid>& watched) {
    const Tid pid = pid_of(before);
    if (before.handler.begin == 0) {
        return;
    }
    for (const Tid thread : list_threads(pid)) {
        for (const Tid child : list_children(pid, thread)) {
            const auto record = watched.contains(child) ? nullptr : record_of_child(child, before);
            if (record == nullptr || shares_memory(pid, child)) {
                continue;
            }
            const auto childs = record->copy_for(child.value(), record->start_time);
            restore_child(record);
            restore_children(*childs, watched);
        }
    }
}

std::vector<std::shared_ptr<RecoveryRecord>>
children_first(std::vector<std::shared_ptr<RecoveryRecord>> records) {
    const auto age = [](const std::shared_ptr<RecoveryRecord>& record) {
        return std::make_pair(depth_of(pid_of(*record)), record->start_time);
    };
    std::stable_sort(records.begin(), records.end(),
                     [&](const auto& a, const auto& b) { return age(a) > age(b); });
    return records;
}

} // namespace memleax
