// SPDX-License-Identifier: GPL-3.0-or-later
// The kernel queues what is sent again behind what was sent to the thread meanwhile. As long as it
// is traced, the one is exchanged for the other; who is let go of has to have all in its turn.
#include <array>
#include <cstdint>
#include <utility>

#include <sys/ptrace.h>
#include <sys/wait.h>

#include "borrowed_mask.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

/// In its own queue; its process's comes after that (signal(7)).
bool has_queued(Tid tid, std::uint64_t numbers) {
    constexpr std::int32_t kAtOnce = 16;
    std::array<siginfo_t, kAtOnce> infos;
    __ptrace_peeksiginfo_args from{};
    from.nr = kAtOnce;
    for (;;) {
        const long got = ptrace(PTRACE_PEEKSIGINFO, tid.value(), &from, infos.data());
        for (long i = 0; i < got; ++i) {
            if ((signal_bit(infos.at(static_cast<std::size_t>(i)).si_signo) & numbers) != 0) {
                return true;
            }
        }
        if (got < kAtOnce) {
            return false;
        }
        from.off += static_cast<std::uint64_t>(got);
    }
}

} // namespace

// It stops for each of them before it executes anything, also where it has them blocked: they are
// let through for that long. What else it gets meanwhile is taken as well.
void ThreadSignals::take_younger(Tid tid, Signals* held) {
    constexpr int kMost = 1000;
    std::uint64_t numbers = 0;
    for (const siginfo_t& info : *held) {
        numbers |= info.si_signo >= kFirstQueuedSignal ? signal_bit(info.si_signo) : 0;
    }
    if (numbers == 0 || !target_.is_stopped(tid) || !has_queued(tid, numbers) ||
        StoppedThread(tid).has_temporary_mask() || awaits_sent(tid)) {
        return;
    }
    const int stop_signal = target_.stop_signal(tid);
    siginfo_t own{};
    if (stop_signal != 0 &&
        (is_exception(stop_signal) || ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &own) != 0)) {
        return;
    }
    bool in_signal_stop = true;
    for (int i = 0; i < kMost && has_queued(tid, numbers); ++i) {
        Signals owed = *held;
        if (stop_signal != 0) {
            owed.insert(owed.begin(), own);
        }
        record_.set_owed(tid, owed);
        const BorrowedMask mask(tid, record_);
        mask.set(mask.own() & ~numbers);
        if (ptrace(PTRACE_CONT, tid.value(), nullptr, nullptr) != 0) {
            return;
        }
        const auto status = target_.parts().waits.await_status(tid);
        siginfo_t info{};
        if (!status || ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) != 0) {
            in_signal_stop = false; // it has ended, or stands in a group-stop
            break;
        }
        in_signal_stop = *status >> 16 == 0;
        if (in_signal_stop) {
            held->push_back(info);
        }
    }
    if (stop_signal != 0 && in_signal_stop) {
        ptrace(PTRACE_SETSIGINFO, tid.value(), nullptr, &own); // it gets it with its detach
    } else if (stop_signal != 0) {
        held->insert(held->begin(), own);
        target_.drop_stop_signal(tid);
    }
}

void ThreadSignals::send_all_held() {
    auto all = std::exchange(held_, {});
    for (auto& [tid, signals] : all) {
        take_younger(tid, &signals);
        for (const siginfo_t& info : signals) {
            send_again(tid, info);
        }
    }
}

} // namespace memleax
