// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/computing_threads.hpp"

#include <algorithm>
#include <array>
#include <ctime>
#include <string>

#include <fcntl.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "memleax/proc/thread_work.hpp"

namespace memleax {

namespace {

constexpr std::int64_t kLeastNs = 5'000'000;

/// 4 MiB to a terminal took 5 ms without a sleep on a machine whose system calls are slow.
constexpr std::int64_t kSlowTransfer = 32;

/// A transfer spends none of the user's. One tick may be rounding, and a second one the kernel's
/// reckoning, which is wrong by one of its own ticks at most as long as the thread only transfers.
bool spends_the_users(const ExecutedTicks& before, const ExecutedTicks& now) {
    constexpr std::uint64_t kLeast = 3;
    const std::uint64_t user = now.user - before.user;
    return user >= kLeast && user >= now.system - before.system;
}

/// CPU time that passing on so much through a pipe takes here. A number of milliseconds would be
/// far too little for an emulated CPU.
constexpr std::int64_t kTransferBytes = 16 << 20;

std::int64_t own_cpu_ns() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return now.tv_sec * kNsPerSecond + now.tv_nsec;
}

/// Of a small part of it, and the rest reckoned: some hundred microseconds.
std::int64_t measure_transfer_ns() {
    constexpr int kRounds = 8;
    std::array<char, 32768> buffer{};
    std::array<int, 2> ends{};
    if (pipe2(ends.data(), O_CLOEXEC | O_NONBLOCK) != 0) {
        return 0;
    }
    const std::int64_t begun = own_cpu_ns();
    std::int64_t moved = 0;
    for (int i = 0; i < kRounds; ++i) {
        const ssize_t in = write(ends[1], buffer.data(), buffer.size());
        const ssize_t out = read(ends[0], buffer.data(), buffer.size());
        moved += in > 0 && in == out ? out : 0;
    }
    const std::int64_t took = own_cpu_ns() - begun;
    close(ends[0]);
    close(ends[1]);
    return moved > 0 ? took * (kTransferBytes / moved) : 0;
}

std::int64_t needed_ns() {
    static const std::int64_t kNeeded = std::max(kLeastNs, measure_transfer_ns());
    return kNeeded;
}

} // namespace

std::pair<ComputingThreads::Look&, std::int64_t>
ComputingThreads::executed_since_sleep(Tid tid, const std::string& folder) {
    const Look now{executed_ns(folder), times_slept(folder), std::nullopt};
    const auto [first, is_new] = first_looks_.try_emplace(tid, now);
    if (!is_new && first->second.sleeps != now.sleeps) {
        first->second = now;
    }
    return {first->second, now.executed_ns - first->second.executed_ns};
}

bool ComputingThreads::computes(Tid pid, Tid tid) {
    return executed_since_sleep(tid, thread_folder(pid, tid)).second >= needed_ns();
}

bool ComputingThreads::computes_by_itself(Tid pid, Tid tid) {
    const std::string folder = thread_folder(pid, tid);
    auto [first, executed] = executed_since_sleep(tid, folder);
    const auto ticks = try_read_executed_ticks(folder);
    if (!first.ticks) {
        first.ticks = ticks;
    }
    return executed >= needed_ns() * kSlowTransfer ||
           (executed >= needed_ns() && first.ticks && ticks &&
            spends_the_users(*first.ticks, *ticks));
}

} // namespace memleax
