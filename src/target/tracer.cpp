// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/tracer.hpp"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <ctime>

#include <sched.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"
#include "target_parts.hpp"

namespace memleax {

int SpinPolicy::polls() {
    static const int result = [] {
        constexpr int kPolls = 100;
        cpu_set_t cpus;
        CPU_ZERO(&cpus);
        const bool is_alone =
            sched_getaffinity(0, sizeof cpus, &cpus) == 0 && CPU_COUNT(&cpus) == 1;
        return is_alone ? 0 : kPolls;
    }();
    return result;
}

void Tracer::remove(Target& target) {
    std::erase(targets_, &target);
    const bool traces_some =
        std::any_of(owners_.begin(), owners_.end(),
                    [&target](const auto& entry) { return entry.second == &target; });
    if (const auto info = traces_some ? try_read_process_info(target.pid()) : std::nullopt) {
        left_[target.pid()] = info->start_time;
    }
    absl::erase_if(owners_, [&target](const auto& entry) { return entry.second == &target; });
    queue_.forget(target);
}

// waitid looks at the threads in an order that is always the same, the last seized first. A few
// busy ones at its head would have all our time, and those behind them none.
void Tracer::collect_backlog() {
    while (const auto stop = wait_for(Tid(-1), WNOHANG)) {
        if (!can_be_taken(*stop)) {
            queue_.push(*stop);
            collect_one_by_one(); // the wait would find this one again
            break;
        }
        consume_stop(tid_of(stop->event));
        queue_.push_once(*stop);
    }
    plan_next_backlog();
}

void Tracer::collect_one_by_one() {
    constexpr std::ptrdiff_t kMostAsked = 64;
    std::vector<Tid> running;
    for (const auto& [tid, target] : owners_) {
        if (!target->is_stopped(tid)) {
            running.push_back(tid);
        }
    }
    std::sort(running.begin(), running.end());
    std::rotate(running.begin(), std::upper_bound(running.begin(), running.end(), last_asked_),
                running.end());
    running.resize(std::min(std::ssize(running), kMostAsked));
    for (const Tid tid : running) {
        last_asked_ = tid;
        if (const auto stop = wait_for(tid, WNOHANG)) {
            if (can_be_taken(*stop)) {
                consume_stop(tid);
            }
            queue_.push_once(*stop);
        }
    }
}

// By what the stops since the last one took: on a slow machine a few are as long as many on a fast
// one. One look at the clock for all of them.
void Tracer::plan_next_backlog() {
    const MonotonicNs now = monotonic_now();
    const std::int64_t took = std::max<std::int64_t>(now.value() - last_backlog_.value(), 1);
    last_backlog_ = now;
    const std::int64_t in_time = stops_between_backlogs_ * kNsBetweenBacklogs / took;
    stops_between_backlogs_ =
        std::max(std::clamp(in_time, kFewestStopsBetweenBacklogs, kMostStopsBetweenBacklogs),
                 kStopsForEachPutOff * static_cast<std::int64_t>(queue_.size()));
    stops_until_backlog_ = stops_between_backlogs_;
}

/// Is nothing lost if it is taken, and we die before its turn has come? The target's own signals
/// would be.
bool Tracer::can_be_taken(const Stop& stop) {
    if (std::holds_alternative<TrapStop>(stop.event)) {
        StopHandler* handler = stop.target->handler();
        return handler != nullptr && handler->move_hit_to_slot(tid_of(stop.event));
    }
    return !std::holds_alternative<SignalStop>(stop.event);
}

bool Tracer::takes_long(const Stop& stop) {
    return std::holds_alternative<TrapStop>(stop.event) && stop.target->handler() != nullptr &&
           stop.target->handler()->takes_long(tid_of(stop.event));
}

std::optional<Tracer::Stop> Tracer::next_stop(Wait wait) {
    if (signal_turn_.is_to_begin()) {
        signal_turn_.begin(monotonic_now());
    }
    auto stop = signal_turn_.is_on() ? next_in_signal_turn() : std::nullopt;
    if (!stop) {
        stop = next_in_order(wait);
    }
    if (stop && std::holds_alternative<SignalStop>(stop->event)) {
        signal_turn_.on_signal();
    } else if (stop && signal_turn_.asks_for_long_stops() && takes_long(*stop)) {
        signal_turn_.on_long_stop(monotonic_now());
    }
    return stop;
}

std::optional<Tracer::Stop> Tracer::next_in_signal_turn() {
    constexpr timespec kForOthers{0, 50'000};
    constexpr int kPollsAlone = 16;
    const bool is_alone = SpinPolicy::polls() == 0;
    int polls = is_alone ? kPollsAlone : SpinPolicy::polls();
    while (polls > 0 && !signal_turn_.is_over(monotonic_now())) {
        const auto stop = wait_for(Tid(-1), WNOHANG);
        if (!stop) {
            --polls;
            if (is_alone) { // who is waited for needs this CPU
                nanosleep(&kForOthers, nullptr);
            }
        } else if (takes_long(*stop) && can_be_taken(*stop)) {
            consume_stop(tid_of(stop->event));
            queue_.push_once(*stop);
        } else {
            // It may stand in line since collect_backlog(), and a second time would be told of what
            // its thread is stopped for then.
            queue_.forget(tid_of(stop->event));
            return behind_claimed(*stop);
        }
    }
    signal_turn_.end();
    return std::nullopt;
}

std::optional<Tracer::Stop> Tracer::next_in_order(Wait wait) {
    if (queue_.empty() && owners_.size() > 1 && --stops_until_backlog_ <= 0) {
        collect_backlog();
    }
    if (!queue_.empty()) {
        return queue_.pop();
    }
    const int polls = SpinPolicy::polls();
    if (wait == Wait::block && polls != 0 && spin_.worthwhile()) {
        for (int i = 0; i < polls; ++i) {
            if (const auto stop = wait_for(Tid(-1), WNOHANG)) {
                spin_.succeeded();
                return behind_claimed(*stop);
            }
        }
        spin_.failed();
    }
    const auto stop = wait_for(Tid(-1), wait == Wait::poll ? WNOHANG : 0);
    return stop ? std::optional(behind_claimed(*stop)) : std::nullopt;
}

std::optional<StopEvent> Tracer::next_stop_of(Target& target, Wait wait) {
    if (const auto own = queue_.pop_of(target)) {
        return own;
    }
    while (const auto stop = wait_for(Tid(-1), wait == Wait::poll ? WNOHANG : 0)) {
        if (stop->target == &target) {
            return behind_claimed(*stop).event;
        }
        put_off(*stop);
    }
    return std::nullopt;
}

std::optional<Tracer::Stop> Tracer::next_stop_but_of(const Target* but) {
    if (const auto queued = queue_.pop_but_of(but)) {
        return queued;
    }
    while (const auto stop = wait_for(Tid(-1), WNOHANG)) {
        const bool is_let_go = stop->target->lets_go_of_stops();
        if (stop->target != but && !is_let_go) {
            return behind_claimed(*stop);
        }
        if (!is_let_go && !can_be_taken(*stop)) {
            queue_.push_once(*stop); // taken, its signal would come late should we die meanwhile
            collect_one_by_one();
            return queue_.pop_but_of(but);
        }
        put_off(*stop); // taken: the next wait finds another one
    }
    return std::nullopt;
}

bool Tracer::serve_meanwhile(const Target* but, std::int64_t ns) {
    const Meanwhile meanwhile = meanwhile_;
    const ServesMeanwhile nobody(*this, nullptr);
    return meanwhile(but, ns);
}

// A signal-delivery-stop is looked at, and not taken (WNOWAIT): should we die before the thread is
// resumed, the kernel delivers the signal then. Once waitpid has returned it, it would be lost
// (kernel/exit.c, wait_task_stopped: *p_code = 0), and with a breakpoint's SIGTRAP the thread,
// which would go on in the middle of an instruction.
std::optional<Tracer::Stop> Tracer::wait_for(Tid which, int flags) {
    // __WNOTHREAD: children of our other threads (a pager, say) are theirs to wait for.
    constexpr int kHow = __WALL | __WNOTHREAD;
    const idtype_t kind = which.value() > 0 ? P_PID : P_ALL;
    for (;;) {
        siginfo_t info{};
        if (waitid(kind, static_cast<id_t>(std::max(which.value(), 0)), &info,
                   WEXITED | WSTOPPED | WNOWAIT | kHow | flags) != 0) {
            return std::nullopt;
        }
        if (info.si_pid == 0) {
            return std::nullopt;
        }
        int status = W_STOPCODE(info.si_status);
        if (info.si_code == CLD_STOPPED) { // a child of ours that is left already; not by ptrace
            waitpid(info.si_pid, nullptr, kHow | WNOHANG | WUNTRACED);
            continue;
        }
        const bool is_signal_stop = info.si_code == CLD_TRAPPED && info.si_status >> 8 == 0;
        if (!is_signal_stop && waitpid(info.si_pid, &status, kHow | WNOHANG) <= 0) {
            continue; // killed at this moment
        }
        if (auto stop = decode(Tid(info.si_pid), status)) {
            return stop;
        }
    }
}

void Tracer::consume_stop(Tid tid) {
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(tid.value()), &info, WSTOPPED | __WALL | __WNOTHREAD | WNOHANG);
}

void Tracer::put_off(const Stop& stop) {
    const Tid tid = tid_of(stop.event);
    if (stop.target->lets_go_of_stops()) {
        consume_stop(tid);
        stop.target->detach(tid, stop.target->stop_signal(tid));
        return;
    }
    stop.target->consume_stop(tid);
    queue_.push_once(stop);
}

std::shared_ptr<RecoveryRecord> Tracer::new_record() {
    return records_ != nullptr ? records_->claim() : RecoveryFile::private_record();
}

bool Tracer::is_left(Tid tid) const {
    if (left_.empty()) {
        return false;
    }
    const auto is_one = [this](Tid pid) {
        const auto left = left_.find(pid);
        const auto info = left != left_.end() ? try_read_process_info(pid) : std::nullopt;
        return info && info->start_time == left->second;
    };
    const auto info = try_read_process_info(tid);
    const auto is_ours = [&info](const Target* target) { return target->pid() == info->tgid; };
    return info && std::none_of(targets_.begin(), targets_.end(), is_ours) &&
           (is_one(info->tgid) || is_one(info->parent));
}

bool Tracer::is_copy(Tid tid) const {
    return std::any_of(targets_.begin(), targets_.end(), [tid](Target* target) {
        const auto& copy = target->parts().copy;
        return copy != nullptr && copy->pid() == tid;
    });
}

void Tracer::let_go(Tid tid, int status) {
    if (WIFSTOPPED(status)) {
        consume_stop(tid);
        // A stop by an event has it above the signal's 16 bits (ptrace(2)). SIGTRAP: as ~Target().
        const int signal = status >> 16 == 0 && WSTOPSIG(status) != SIGTRAP ? WSTOPSIG(status) : 0;
        ptrace(PTRACE_DETACH, tid.value(), nullptr, signal);
    }
}

std::optional<Tracer::Stop> Tracer::decode(Tid tid, int status) {
    auto owner = owners_.find(tid);
    if (owner == owners_.end()) {
        // A first thread that had ended before we came is not ours, and its id may come back by
        // exec.
        for (Target* target : targets_) {
            if (target->pid() == tid) {
                owner = owners_.emplace(tid, target).first;
            }
        }
    }
    if (owner == owners_.end() && WIFSTOPPED(status) && is_copy(tid)) { // it never runs
        consume_stop(tid);
        return std::nullopt;
    }
    if (owner == owners_.end() && is_left(tid)) {
        let_go(tid, status);
        return std::nullopt;
    }
    if (owner == owners_.end()) {
        return WIFSTOPPED(status) ? decode_birth(tid, status) : decode_end(tid);
    }
    Target& target = *owner->second;
    const auto event = target.parts().decoder.decode(tid, status);
    return event ? std::optional(Stop{&target, *event}) : std::nullopt;
}

Tracer::Stop Tracer::behind_claimed(const Stop& stop) {
    const bool claims = tid_of(stop.event) == stop.target->pid() &&
                        (std::holds_alternative<ThreadGone>(stop.event) ||
                         std::holds_alternative<ExecStop>(stop.event));
    const auto newborn = claims ? queue_.pop_newborn_of(*stop.target) : std::nullopt;
    if (!newborn) {
        return stop;
    }
    queue_.push(stop);
    return {stop.target, *newborn};
}

std::optional<Tracer::Stop> Tracer::decode_end(Tid tid) {
    // A child that was let go of, or that died before it reported.
    orphans_.erase(tid);
    for (Target* target : targets_) {
        target->parts().births.forget(tid);
    }
    return std::nullopt;
}

} // namespace memleax
