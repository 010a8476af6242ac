// SPDX-License-Identifier: GPL-3.0-or-later
#include "borrowed_thread.hpp"

#include <bit>
#include <optional>
#include <set>
#include <span>

#include <poll.h>
#include <sys/syscall.h>

#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/computing_threads.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "memleax/target/thread_signals.hpp"
#include "memleax/target/way_back.hpp"
#include "recorded_handler.hpp"

namespace memleax {

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

namespace {

constexpr int kBetweenLooksMs = 1;

/// For a thread that runs to be found asleep, or to compute: a loaded machine may not give it a
/// CPU.
constexpr std::int64_t kMostMsUntilSeen = 3000;

/// The result of its call, if it has been made. `now`: its registers, if it still stands there.
std::optional<long> result_of_call(Target& target, const std::optional<arch::Registers>& now) {
    const RecoveryRecord& record = target.record();
    const RecoveryRecord::BorrowedThread& borrowed = record.borrowed;
    const auto left_there = borrowed.result_at != 0
                                ? WayBack::result(target.memory(), RemoteAddr(borrowed.result_at))
                                : std::nullopt;
    if (left_there) {
        return left_there;
    }
    if (now) {
        const bool is_behind =
            arch::pc(*now) == CodeAddr(borrowed.code.begin + arch::kSyscallBytes.size());
        return is_behind ? std::optional(arch::system_call_result(*now)) : std::nullopt;
    }
    // Our last page cannot keep the result of its own munmap.
    const bool was_last = borrowed.number == SYS_munmap && !record.handler.empty() &&
                          borrowed.unmapped == record.handler &&
                          look_for_handler(target.pid(), record) != HandlersPlace::handler;
    return was_last ? std::optional(0) : std::nullopt;
}

void note_mapping(RecoveryRecord& record, long result) {
    RecoveryRecord::BorrowedThread& borrowed = record.borrowed;
    if (borrowed.number == SYS_mmap && !is_errno(result)) {
        borrowed.mapped.store(static_cast<std::uint64_t>(result));
    }
    if (borrowed.number == SYS_munmap && result == 0) {
        record.on_unmapped(borrowed.unmapped);
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
        poll(nullptr, 0, kBetweenLooksMs);
    }
    return false;
}

/// Is this the mask that holds signals back while a thread executes something for us
/// (SignalsHeldBack)? Else the thread's own, `own`, is in force again, and it may have changed it
/// since: who is in pthread_create blocks everything, for a moment.
bool holds_back(std::uint64_t mask, std::uint64_t own) {
    constexpr std::uint64_t kNever = signal_bit(SIGKILL) | signal_bit(SIGSTOP);
    std::uint64_t stand_ins = 0;
    for (const int signal : RecoveryRecord::kStandIns) {
        stand_ins |= signal_bit(signal);
    }
    const std::uint64_t others = ~(kExceptionSignals | kNever | stand_ins);
    const std::uint64_t exceptions = mask & kExceptionSignals & ~signal_bit(SIGTRAP);
    return (mask & others) == others && std::popcount(stand_ins & ~mask) <= 1 &&
           (exceptions & ~own) == 0;
}

/// Asleep in a call that it has made itself: it got its registers back before the tracer died, and
/// may be in a transfer that a stop would cut short. So may one that runs: it does not know how to
/// sleep where we let it stand, so that this is waited for until it has computed for long enough.
bool sleeps_by_itself(Tid pid, Tid tid, AddrRange code) {
    ComputingThreads computing;
    for (const Patience patience(kMostMsUntilSeen);; poll(nullptr, 0, kBetweenLooksMs)) {
        const auto kernel = try_read_kernel_state(pid, tid);
        if (kernel && (kernel->state == 'S' || kernel->state == 'D') && kernel->system_call) {
            return !code.contains(kernel->pc);
        }
        if (!kernel || kernel->state != 'R' || computing.computes_by_itself(pid, tid) ||
            patience.is_over()) {
            return false;
        }
    }
}

/// As it has nothing of ours but the mask, it may be in a transfer. With all signals blocked it
/// cannot stay.
void wait_out_transfer(Target& target, Tid tid) {
    if (!target.is_stopped(tid) && !target.borrower().wait_out_transfers({tid}).empty()) {
        log_warning("thread {} has a transfer cut short, as its signals were blocked for a call of "
                    "memleax's",
                    tid.value());
    }
}

/// It may be in our handler, for the step of the call that it executed: where it stands then is not
/// yet where that call has left it. Out of there it gets by itself, and soon.
void leave_handler(Target& target, Tid tid, AddrRange code) {
    const AddrRange page = target.record().handler;
    arch::Registers now{};
    for (const Patience patience(kMostMsForOthers);
         StoppedThread(tid).get_registers(&now) && page.contains(arch::pc(now)) &&
         !code.contains(arch::pc(now)) && !patience.is_over();) {
        target.signals().let_run_on(tid);
        if (!stop_or_see_end(target, tid)) {
            return;
        }
    }
}

/// It may have made a copy of the process (ProcessCopy) for the dead one just now: the kernel
/// writes the result of that call into its registers when it goes on. By itself it then gets those
/// back that are its own. False if it is gone. One that has its own registers may be in a vfork of
/// its own, which is not over before a child of it has gone on that we hold.
bool leave_clone(Target& target, Tid tid) {
    const auto is_in_clone = [&] {
        const auto thread = target.threads().find(tid);
        return target.record().borrowed.number == SYS_clone && thread != target.threads().end() &&
               thread->second.in_system_call && !thread->second.in_vfork;
    };
    while (is_in_clone()) {
        target.signals().let_run_on(tid);
        if (!stop_or_see_end(target, tid)) {
            return false;
        }
    }
    return true;
}

} // namespace

Tid return_borrowed_thread(Target& target) {
    RecoveryRecord::BorrowedThread& borrowed = target.record().borrowed;
    const AddrRange code = borrowed.code;
    const bool is_any = borrowed.tid.load() != 0;
    Tid tid(borrowed.tid.load());
    if (tid.value() != 0 && sleeps_by_itself(target.pid(), tid, code)) {
        tid = Tid();
    }
    std::optional<arch::Registers> now;
    if (tid.value() != 0 && stop_or_see_end(target, tid) && leave_clone(target, tid)) {
        leave_handler(target, tid, code);
        now.emplace();
        if (!StoppedThread(tid).get_registers(&*now) || !code.contains(arch::pc(*now))) {
            now.reset();
        }
    }
    if (const auto result = is_any ? result_of_call(target, now) : std::nullopt) {
        note_mapping(target.record(), *result);
    }
    if (now) {
        StoppedThread(tid).set_registers(borrowed.registers);
        StoppedThread(tid).set_discarded(borrowed.discarded);
    }
    // Also if it has ended since, or has its own registers.
    if (borrowed.tid.load() != 0 && borrowed.code_byte_count != 0) {
        (void)target.memory().write(RemoteAddr(borrowed.code.begin),
                                    std::span(borrowed.code_bytes).first(borrowed.code_byte_count));
    }
    borrowed.tid.store(0);
    const Tid masked(borrowed.tid_of_mask.load());
    const auto info = masked.value() != 0 ? try_read_process_info(masked) : std::nullopt;
    const auto is_lent = [&borrowed](std::uint64_t mask) {
        return mask == borrowed.lent_mask || holds_back(mask, borrowed.mask);
    };
    if (info && is_lent(info->blocked_signals)) {
        wait_out_transfer(target, masked);
        if (stop_or_see_end(target, masked) &&
            is_lent(StoppedThread(masked).signal_mask().value_or(0))) {
            StoppedThread(masked).set_signal_mask(borrowed.mask);
        }
    }
    borrowed.tid_of_mask.store(0);
    return tid;
}

void give_owed_signals(Target& target, Tid borrowed, const std::vector<OwedSignal>& owed) {
    std::set<Tid> threads;
    if (borrowed.value() != 0) {
        threads.insert(borrowed);
    }
    for (const auto& [tid, info] : owed) {
        target.signals().send_again(tid, info);
        threads.insert(tid);
    }
    for (const Tid tid : threads) {
        if (target.stop_and_defer(tid)) {
            target.signals().advance_to(tid);
        }
    }
}

AddrRange unknown_page(RecoveryRecord& record) {
    const std::uint64_t begin = record.borrowed.mapped.exchange(0);
    if (begin == 0 || record.tells_of(begin)) {
        return {}; // it is unmapped, once, as what it is
    }
    return AddrRange::at(RemoteAddr(begin), record.borrowed.mapped_bytes);
}

} // namespace memleax
