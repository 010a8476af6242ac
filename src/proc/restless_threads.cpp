// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/restless_threads.hpp"

#include <cstdlib>
#include <string>
#include <string_view>

#include <fcntl.h>

#include "descriptors.hpp"
#include "proc_file.hpp"
#include "thread_work.hpp"

namespace memleax {

namespace {

/// They are judged together, when the thread has executed for so many ticks.
constexpr unsigned kMoments = 100;
constexpr std::uint64_t kTicks = 30;

/// A transfer spends none of the user's. But the kernel reckons them by the few moments at which a
/// tick has found the thread (cputime_adjust() in kernel/sched/cputime.c), so some are to be seen.
bool computes(const ExecutedTicks& before, const ExecutedTicks& now) {
    constexpr std::uint64_t kLeastPart = 5;
    const std::uint64_t user = now.user - before.user;
    return user * kLeastPart >= user + (now.system - before.system);
}

/// Of one that cannot be read, nothing is known.
bool may_wait(const std::string& fdinfo) {
    constexpr std::string_view kFlags = "flags:";
    constexpr int kOctal = 8;
    const auto text = try_read_proc_file(fdinfo).value_or("");
    const std::size_t at = text.find(kFlags);
    return at == std::string::npos ||
           (std::strtoull(text.c_str() + at + kFlags.size(), nullptr, kOctal) & O_NONBLOCK) == 0;
}

} // namespace

bool RestlessThreads::has_waiting_socket() {
    const MonotonicNs now = monotonic_now();
    if (!sockets_seen_ || now.value() - sockets_seen_->value() > kNsPerSecond) {
        sockets_seen_ = now;
        has_waiting_socket_ =
            !check_descriptors(pid_, [](const std::string& name, const std::string& info) {
                return name.starts_with("socket:") && may_wait(info) ? Error("it may wait")
                                                                     : Result<void>();
            });
    }
    return has_waiting_socket_;
}

bool RestlessThreads::sleeps_elsewhere(Tid tid) {
    const std::string folder = thread_folder(pid_, tid);
    const auto write_calls = try_read_write_calls(folder);
    const auto ticks = try_read_executed_ticks(folder);
    if (!write_calls || !ticks) {
        forget(tid);
        return false;
    }
    const Seen now{*write_calls, times_slept(folder), *ticks, 0, false};
    Seen& seen = seen_.try_emplace(tid, now).first->second;
    if (seen.write_calls != now.write_calls) {
        seen = now;
    }
    if (seen.sleeps != now.sleeps) {
        seen.sleeps = now.sleeps;
        ++seen.moments;
    }
    if (seen.moments >= kMoments && now.begun.sum() - seen.begun.sum() >= kTicks) {
        const bool is_known = computes(seen.begun, now.begun);
        seen = now;
        seen.is_known = is_known;
    }
    return seen.is_known && !has_waiting_socket();
}

} // namespace memleax
