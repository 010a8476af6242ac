// SPDX-License-Identifier: GPL-3.0-or-later
// Whom to stop: what a stop costs a thread, and the one whom it costs least.
//
// A thread that is asleep in a call that the kernel begins again comes first, and one that computes
// after it: what /proc tells of the first is certain until somebody wakes it, and the second may be
// in the midst of a transfer just as well, awake for as long as it takes to copy a part.
#include <algorithm>
#include <array>
#include <ctime>
#include <iterator>
#include <set>
#include <span>

#include <sys/uio.h>
#include <sys/wait.h>

#include "harmless_moment.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/system_call_kind.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

namespace {

/// Of an array of struct iovec; nothing if it is longer than those of most programs.
std::optional<std::uint64_t> bytes_in_vector(const RemoteMemory& memory, RemoteAddr array,
                                             std::uint64_t count) {
    constexpr std::size_t kMost = 64;
    std::array<iovec, kMost> vector{};
    if (count > kMost) {
        return std::nullopt;
    }
    const auto bytes = std::as_writable_bytes(std::span(vector).first(count));
    if (memory.try_read_unmasked(array, bytes) != bytes.size()) {
        return std::nullopt;
    }
    std::uint64_t sum = 0;
    for (const iovec& part : std::span(vector).first(count)) {
        sum += part.iov_len;
    }
    return sum;
}

} // namespace

StopEffect Target::effect_of_stop_in(Tid tid, const KernelState& kernel) const {
    const CallDetails details{
        .kind_of = [tid](int fd) { return kind_of_descriptor(tid, fd); },
        .bytes_of = [this](RemoteAddr array,
                           std::uint64_t count) { return bytes_in_vector(memory_, array, count); }};
    return effect_of_stop(*kernel.system_call, kernel.arguments, details);
}

Target::StopCost Target::stop_cost(Tid tid) const {
    const auto kernel = try_read_kernel_state(pid_, tid);
    if (!kernel || kernel->has_ended()) {
        return StopCost::gone;
    }
    switch (kernel->state) {
    case 'D': // in a transfer it waits so for its peer, who has the pipe's lock
        return kernel->system_call && effect_of_stop_in(tid, *kernel) == StopEffect::cut_short
                   ? StopCost::cut_short
                   : StopCost::uninterruptible;
    case 'T':
    case 't':
        return StopCost::nothing; // it is stopped
    case 'S':
        break;
    default: // it may have woken up in the midst of its call
        return kernel->system_call && effect_of_stop_in(tid, *kernel) == StopEffect::cut_short
                   ? StopCost::cut_short
                   : StopCost::runs;
    }
    if (!kernel->system_call) {
        // "running" was read before it fell asleep; or it waits for a page.
        return kernel->pc.value() == 0 ? StopCost::runs : StopCost::nothing;
    }
    switch (effect_of_stop_in(tid, *kernel)) {
    case StopEffect::unnoticed:
        return StopCost::nothing;
    case StopEffect::begun_again:
        return StopCost::begins_again;
    case StopEffect::limit_anew:
        return StopCost::limit_anew;
    case StopEffect::cut_short:
        return StopCost::cut_short;
    case StopEffect::may_fail:
        break;
    }
    return StopCost::may_fail;
}

Target::StopCost Target::stop_cost(Tid tid, HarmlessMoment* moment) const {
    using Seen = HarmlessMoment::Seen;
    const StopCost cost = stop_cost(tid);
    const Seen seen = cost == StopCost::cut_short ? Seen::asleep_in_transfer
                      : cost == StopCost::runs    ? Seen::running
                                                  : Seen::otherwise;
    return moment->is_in_transfer(tid, seen) ? StopCost::cut_short : cost;
}

// One that runs may be awake for a moment in a transfer. It is asked about threads that block
// SIGTRAP: those that stay so take our handler away at each of their hits, which is worse.
bool Target::minds_no_stop(Tid tid) const {
    return is_stopped(tid) || stop_cost(tid) <= StopCost::runs;
}

std::vector<Target::Candidate> Target::candidates_to_borrow(HarmlessMoment* moment) const {
    const bool filters_matter = !may_suspend_seccomp();
    const auto is_filtered = [filters_matter](Tid tid) {
        const auto info = filters_matter ? try_read_process_info(tid) : std::nullopt;
        return info && info->seccomp_mode != 0;
    };
    std::vector<Candidate> candidates;
    for (const auto& [tid, thread] : threads_) {
        const bool stopped = thread.state == TracedThread::State::stopped;
        // A child process shares the memory, and not what signals do.
        if (thread.is_child_process || (stopped && thread.in_vfork)) {
            continue;
        }
        const StopCost cost = stopped ? StopCost::nothing : stop_cost(tid, moment);
        if (cost != StopCost::gone) {
            candidates.push_back({is_filtered(tid), stopped, cost, tid});
        }
    }
    std::sort(candidates.begin(), candidates.end(),
              [](const Candidate& a, const Candidate& b) { return a.order() < b.order(); });
    return candidates;
}

Result<Tid> Target::borrow_thread(OnSignal on_signal) {
    HarmlessMoment moment(*this, on_signal);
    for (;;) {
        auto candidates = candidates_to_borrow(&moment);
        const auto is_transfer = [](const Candidate& each) {
            return each.cost == StopCost::cut_short;
        };
        const auto transfer = std::find_if(candidates.begin(), candidates.end(), is_transfer);
        const bool must_wait = transfer != candidates.end();
        const bool any_before = transfer != candidates.begin();
        std::erase_if(candidates, is_transfer);
        if (!must_wait || any_before) {
            auto borrowed = try_to_borrow(candidates);
            if (borrowed || !must_wait) {
                return borrowed;
            }
        }
        if (!moment.wait_on()) {
            return moment.why_not();
        }
        defer_what_has_come(); // who has stopped by itself is as good
    }
}

bool Target::has_thread_to_borrow() const {
    return std::any_of(threads_.begin(), threads_.end(),
                       [this](const auto& entry) { return !is_in_transfer(entry.first); });
}

std::set<Tid> Target::wait_out_transfers(const std::set<Tid>& threads) {
    HarmlessMoment moment(*this, OnSignal::wait_on);
    for (;;) {
        std::set<Tid> transferring;
        std::copy_if(threads.begin(), threads.end(),
                     std::inserter(transferring, transferring.end()), [&](Tid tid) {
                         return !is_stopped(tid) && stop_cost(tid, &moment) == StopCost::cut_short;
                     });
        if (transferring.empty() || !moment.wait_on()) {
            return transferring;
        }
        defer_what_has_come();
    }
}

// As stop_and_defer() does. One by one: what is put aside here is not taken, and a wait for any
// would find it again.
void Target::defer_what_has_come() {
    std::vector<Tid> running;
    for (const auto& [tid, thread] : threads_) {
        if (thread.state == TracedThread::State::running) {
            running.push_back(tid);
        }
    }
    for (const Tid tid : running) {
        if (const auto event = wait_for(tid, WNOHANG)) {
            defer(*event);
        }
    }
}

} // namespace memleax
