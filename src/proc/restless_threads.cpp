// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/restless_threads.hpp"

#include <string>

#include "memleax/proc/thread_work.hpp"

namespace memleax {

namespace {

/// They are judged together, when the thread has executed for so many ticks.
constexpr unsigned kMoments = 100;
constexpr std::uint64_t kTicks = 30;

/// A transfer spends none of the user's, but for what the kernel reckons wrongly.
bool computes(const ExecutedTicks& before, const ExecutedTicks& now) {
    constexpr std::uint64_t kLeastPart = 5;
    const std::uint64_t user = now.user - before.user;
    return user * kLeastPart >= user + (now.system - before.system);
}

} // namespace

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
    return seen.is_known && !descriptors_.any_socket();
}

} // namespace memleax
