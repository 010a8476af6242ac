// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/engine/recovery.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include "attempt.hpp"
#include "borrowed_thread.hpp"
#include "detacher.hpp"
#include "inline/agent_pages.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/own_thread.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/events/process_end.hpp"
#include "memleax/proc/freezer.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/breakpoint.hpp"
#include "memleax/target/process_copy.hpp"
#include "memleax/target/trap_signal.hpp"
#include "own_unwinder.hpp"
#include "recorded_handler.hpp"
#include "recorded_pages.hpp"
#include "thaw.hpp"

namespace memleax {

namespace {

constexpr int kPauseMs = 1;
/// So long we wait for the kernel to take the dead tracer's threads from it.
constexpr int kMostPauses = 20'000;

bool is_the_same(const RecoveryRecord& record) {
    const auto info = try_read_process_info(pid_of(record));
    return info && info->start_time == record.start_time;
}

Error has_ended(const RecoveryRecord& record) {
    const auto info = try_read_process_info(pid_of(record));
    const bool is_known = info && info->wait_status && info->start_time == record.start_time;
    return Error(fmt::format("process {} has ended{}", record.pid.load(),
                             is_known ? ": " + end_text(info->wait_status) : ""));
}

/// As long as the tracer is on its way out, its threads are still taken.
Result<void> wait_until_untraced(const RecoveryRecord& record) {
    const Tid pid = pid_of(record);
    Tid tracer;
    for (int i = 0; i < kMostPauses; ++i) {
        bool lives = false;
        tracer = Tid();
        for (const Tid tid : list_threads(pid)) {
            const auto info = try_read_process_info(tid);
            if (info && !info->has_ended()) {
                lives = true;
                tracer = info->tracer.value() != 0 ? info->tracer : tracer;
            }
        }
        if (!lives || !is_the_same(record)) {
            return has_ended(record);
        }
        if (tracer.value() == 0) {
            return {};
        }
        poll(nullptr, 0, kPauseMs);
    }
    const auto by = try_read_process_info(tracer);
    return Error(fmt::format("process {} is not put back, as it is still traced, by {} ({})",
                             pid.value(), tracer.value(), by ? printable(by->comm) : "?"));
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

Result<RemoteMemory> memory_of(const RecoveryRecord& record) {
    const Tid pid = pid_of(record);
    auto memory = RemoteMemory::open(pid);
    if (memory && !is_the_same(record)) {
        return Error(fmt::format("process {} has ended", pid.value()));
    }
    return memory;
}

/// Has a thread come to sigaction(3) for SIGTRAP, and waits for the code to be whole?
bool is_any_held(const RecoveryRecord& record, RemoteMemory& memory) {
    constexpr auto kAt = static_cast<std::int64_t>(arch::kWayBackDataAt + arch::kHeldAt);
    return !record.handler.empty() &&
           memory.try_read_object<std::uint8_t>(RemoteAddr(record.handler.begin) + kAt)
                   .value_or(1) != 0;
}

/// What `is_left` says of a jump stays as it is.
template <typename IsLeft>
Result<void> restore_but(const RecoveryRecord& record, RemoteMemory& memory,
                         const IsLeft& is_left) {
    Result<void> result;
    const auto keep_error = [&result](auto done) {
        if (!done) {
            result = std::move(done).error();
        }
    };
    std::vector<CodePatch> jumps;
    std::vector<CodePatch> holding;
    for (std::uint32_t i = 0; i < record.breakpoint_count.load(); ++i) {
        const CodePatch& patch = record.breakpoints[i].patch;
        if (patch.is_jump() && !is_left(patch)) {
            (record.breakpoints[i].holds ? holding : jumps).push_back(patch);
        }
    }
    const auto take_out_jumps = [&](const std::vector<CodePatch>& all) {
        keep_error(make_breakpoints_of_jumps(all, memory));
        for (const CodePatch& jump : all) {
            keep_error(jump.take_out(memory));
        }
    };
    const auto restore_breakpoints = [&](bool that_hold) {
        for (std::uint32_t i = 0; i < record.breakpoint_count.load(); ++i) {
            const RecoveryRecord::Breakpoint& entry = record.breakpoints[i];
            if (!entry.patch.is_jump() && entry.holds == that_hold) {
                keep_error(entry.patch.take_out(memory));
            }
        }
    };
    restore_breakpoints(false);
    // A thread that waits in our handler (kSlotHolds) goes on as soon as the code there is whole,
    // and must not meet a breakpoint then: it may be about to take the handler away. If there is
    // none, it comes before the jumps, which may take some 16 ms: children by vfork come to it with
    // all signals blocked (Python's subprocess), and end there.
    const bool is_last = !jumps.empty() && is_any_held(record, memory);
    if (is_last) {
        take_out_jumps(jumps);
    }
    restore_breakpoints(true);
    take_out_jumps(holding);
    if (!is_last) {
        take_out_jumps(jumps);
    }
    return result;
}

} // namespace

// On its way out a jump is a breakpoint for some milliseconds, and until there is a tracer again a
// hit ends the process if its thread blocks SIGTRAP, as the workers of thread pools do, or a child
// by vfork whose handler is the default. So a jump that is whole waits for the tracer; meanwhile
// the agent lets all calls pass.
Result<void> restore_code(const RecoveryRecord& record) {
    auto memory = memory_of(record);
    if (!memory) {
        return std::move(memory).error();
    }
    const bool all_pass =
        look_for_handler(pid_of(record), record) == HandlersPlace::handler && // no other program
        disable_agent(record, *memory);
    return restore_but(record, *memory,
                       [&](const CodePatch& jump) { return all_pass && jump.begins_in(*memory); });
}

Result<void> restore_jumps(const RecoveryRecord& record) {
    auto memory = memory_of(record);
    return memory ? restore_but(record, *memory, [](const CodePatch& /*jump*/) { return false; })
                  : std::move(memory).error();
}

namespace {

/// By a thread that ends afterwards (see Target), as a rule.
Result<void> restore_in_this_thread(const std::shared_ptr<RecoveryRecord>& record) {
    const Tid pid = pid_of(*record);
    if (auto untraced = wait_until_untraced(*record); !untraced) {
        return untraced;
    }
    if (file_of_freezer(pid)) {
        (void)restore_jumps(*record); // nobody can come to a breakpoint
    }
    await_thaw(pid, [] {}); // a borrowed thread's registers are put back first of all
    const std::vector<OwedSignal> owed = owed_signals(*record);
    // One for all that this thread puts back, if there are several: whoever was not stopped is let
    // go of when he stops, while another process's turn has come.
    thread_local Tracer tracer(nullptr);
    auto target = Target::seize(tracer, pid, record);
    if (!target) {
        return std::move(target).error();
    }
    const Tid borrowed = return_borrowed_thread(**target);
    AddrRange unknown = unknown_page(*record); // before the next call of ours
    if (!unknown.empty() && look_for_handler(pid, *record) != HandlersPlace::handler &&
        !may_be_ours(pid, unknown)) {
        unknown = {};
    }
    forget_what_is_gone(*record);
    BreakpointTable breakpoints(**target);
    AgentPages agent(**target);
    breakpoints.own_codes().add_first(&agent);
    breakpoints.adopt();
    breakpoints.withdraw_jumps();
    breakpoints.restore_all();
    give_owed_signals(**target, borrowed, owed);
    if (record->has_copy.load() != 0) {
        if (auto reaped = reap_copies(**target); !reaped) {
            log_warning("{}", reaped.error().message());
        }
    }
    TrapSignal trap_signal(**target, breakpoints.handler());
    trap_signal.adopt(); // looks at the masks
    // Where nothing of ours is left, for which threads would be stopped: a mask outlives an exec.
    if (breakpoints.own_codes().empty() && trap_signal.has_changed_mask(pid) &&
        (*target)->stop_and_defer(pid)) {
        trap_signal.restore_masks();
    }
    Indifferent nobody;
    OwnUnwinder unwinder(**target);
    Detacher detacher(**target, breakpoints, trap_signal, nobody, true,
                      [&]() -> Unwinder& { return unwinder.get(); });
    detacher.unmap_too(unknown);
    detacher.complete();
    return {};
}

} // namespace

Result<void> restore_process(const std::shared_ptr<RecoveryRecord>& record) {
    return attempt([&record] {
        Result<void> done;
        const auto restore = [&] { done = restore_in_this_thread(record); };
        if (!in_own_thread(restore)) {
            restore();
        }
        return done;
    });
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
