// SPDX-License-Identifier: GPL-3.0-or-later
// The kernel queues what is sent again behind what was sent to the thread meanwhile. As long as it
// is traced, the one is exchanged for the other; who is let go of has to have all in its turn.
#include <array>
#include <cstdint>
#include <ctime>
#include <utility>
#include <vector>

#include <sys/ptrace.h>
#include <sys/wait.h>

#include "borrowed_mask.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"
#include "memleax/target/tracer.hpp"
#include "target_parts.hpp"

namespace memleax {

namespace {

/// More are not taken out: who sends as many as its user may have pending (RLIMIT_SIGPENDING) would
/// fill the places at once, and those that were taken would have none.
constexpr int kMost = 128;

/// As it is? The kernel lets nobody queue what looks like its own, like kill()'s, or like
/// tgkill()'s (rt_tgsigqueueinfo(2)), and a timer's it drops unseen where that has been set anew.
bool can_be_sent_again(const siginfo_t& info) {
    return info.si_code < 0 && info.si_code != SI_TKILL && info.si_code != SI_TIMER;
}

/// Has it any of these numbers in its own queue, all of which can be taken out? Its process's queue
/// comes after that (signal(7)).
bool has_queued(Tid tid, std::uint64_t numbers) {
    std::array<siginfo_t, kMost> infos;
    __ptrace_peeksiginfo_args from{};
    from.nr = kMost;
    const long got = ptrace(PTRACE_PEEKSIGINFO, tid.value(), &from, infos.data());
    bool any = false;
    for (long i = 0; i < got; ++i) {
        const siginfo_t& info = infos.at(static_cast<std::size_t>(i));
        if ((signal_bit(info.si_signo) & numbers) != 0) {
            if (!can_be_sent_again(info)) {
                return false;
            }
            any = true;
        }
    }
    return any && got < kMost;
}

/// A thread that is to stop for a signal before it executes anything has stopped, or is asked to:
/// the target ignores that signal since, for instance.
void see_it_stop(Target& target, Tid tid) {
    constexpr std::int64_t kMostMs = 20;
    constexpr timespec kPause{0, 50'000};
    const Patience patience(kMostMs);
    for (int looks = 0; !patience.is_over(); ++looks) {
        siginfo_t info{};
        constexpr int kLook = WSTOPPED | WEXITED | WNOWAIT | WNOHANG | __WALL | __WNOTHREAD;
        if (waitid(P_PID, static_cast<id_t>(tid.value()), &info, kLook) != 0 || info.si_pid != 0) {
            return;
        }
        if (looks >= SpinPolicy::polls()) {
            nanosleep(&kPause, nullptr);
        }
    }
    target.interrupt(tid);
}

} // namespace

bool ThreadSignals::can_take_younger(Tid tid, std::uint64_t numbers) const {
    const TracedThread* thread = target_.parts().threads.find(tid);
    if (numbers == 0 || thread == nullptr || !target_.is_stopped(tid) || thread->in_system_call ||
        !has_queued(tid, numbers) || awaits_sent(tid)) {
        return false;
    }
    const StoppedThread stopped(tid);
    const auto info = try_read_process_info(tid);
    return info && !stopped.has_temporary_mask() && !stopped.has_pending_exception() &&
           ((info->pending_signals | info->shared_pending_signals) & kExceptionSignals) == 0;
}

// It stops for each of them before it executes anything, also where it has them blocked: they alone
// are let through for that long, and what an instruction would raise.
void ThreadSignals::take_younger(Tid tid, Signals* own, Signals* held) {
    std::uint64_t numbers = 0;
    for (const siginfo_t& info : *held) {
        numbers |= info.si_signo >= kFirstQueuedSignal ? signal_bit(info.si_signo) : 0;
    }
    if (!can_take_younger(tid, numbers)) {
        return;
    }
    bool in_signal_stop = false;
    for (int i = 0; i < kMost && has_queued(tid, numbers); ++i) {
        BorrowedMask mask(tid, record_);
        mask.set(~(numbers | kExceptionSignals) | (mask.own() & kExceptionSignals));
        if (ptrace(PTRACE_CONT, tid.value(), nullptr, nullptr) != 0) {
            return;
        }
        see_it_stop(target_, tid);
        const auto status = target_.parts().waits.await_status(tid);
        if (!status) { // it has ended, or executes another program, which has no handlers
            held->clear();
            return;
        }
        siginfo_t info{};
        in_signal_stop =
            *status >> 16 == 0 && ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0;
        if (in_signal_stop) {
            held->push_back(info);
            note_owed(tid, *own, *held);
        } else {
            mask.give_back_if_in_force(); // it may have run, and set its own
        }
    }
    if (!own->empty() && in_signal_stop) {
        ptrace(PTRACE_SETSIGINFO, tid.value(), nullptr, &own->front()); // with its detach
    } else if (!own->empty()) {
        held->insert(held->begin(), own->front());
        own->clear();
        target_.drop_stop_signal(tid);
    }
}

void ThreadSignals::note_owed(Tid tid, const Signals& own, const Signals& held) {
    Signals owed = own;
    owed.insert(owed.end(), held.begin(), held.end());
    record_.set_owed(tid, owed);
}

std::vector<ThreadSignals::Late> ThreadSignals::send_all_held() {
    std::vector<Late> late;
    auto all = std::exchange(held_, {});
    for (auto& [tid, held] : all) {
        Signals own; // that it is stopped for
        siginfo_t info{};
        if (target_.is_stopped(tid) && target_.stop_signal(tid) != 0 && target_.consume_stop(tid) &&
            ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0) {
            own.push_back(info);
            note_owed(tid, own, held);
        }
        if (target_.stop_signal(tid) == 0 || (!own.empty() && !is_exception(info.si_signo))) {
            take_younger(tid, &own, &held);
        }
        bool has_room = true;
        while (!held.empty() && has_room) { // one behind the other
            has_room = send(tid, held.front());
            if (has_room) {
                held.erase(held.begin());
            }
            note_owed(tid, own, held); // of one number, another may have been struck off
        }
        if (const auto thread = try_read_process_info(tid); thread && !held.empty()) {
            const Tid group = target_.parts().group_of(tid);
            for (const siginfo_t& signal : held) {
                const bool is_caught = (thread->caught_signals & signal_bit(signal.si_signo)) != 0;
                late.push_back({tid, signal, group, thread->start_time, is_caught});
            }
        }
    }
    return late;
}

} // namespace memleax
