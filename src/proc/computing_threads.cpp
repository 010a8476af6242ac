// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/computing_threads.hpp"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <string>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "named_numbers.hpp"
#include "proc_file.hpp"
#include "stat_fields.hpp"

namespace memleax {

namespace {

constexpr std::int64_t kLeastNs = 5'000'000;

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

/// Its first number: nanoseconds on a CPU (Documentation/scheduler/sched-stats.rst). Where the
/// kernel keeps none: utime and stime of stat, in ticks.
std::int64_t executed_ns(const std::string& folder) {
    const auto schedstat = try_read_proc_file(folder + "schedstat");
    if (schedstat && !schedstat->empty() && (*schedstat)[0] != '0') {
        return std::strtoll(schedstat->c_str(), nullptr, 10);
    }
    const auto stat = try_read_proc_file(folder + "stat");
    const auto fields = stat ? stat_fields(*stat) : std::vector<std::string_view>();
    constexpr std::size_t kUser = 14 - 3; // field 14
    if (fields.size() <= kUser + 1) {
        return 0;
    }
    const auto user = leading_number(fields[kUser]).value_or(0);
    const auto system = leading_number(fields[kUser + 1]).value_or(0);
    static const long ticks = sysconf(_SC_CLK_TCK);
    return static_cast<std::int64_t>(user + system) * (kNsPerSecond / ticks);
}

/// How often it gave up the CPU of its own accord.
std::uint64_t sleeps(const std::string& folder) {
    static constexpr std::string_view kName = "\nvoluntary_ctxt_switches:";
    const auto status = try_read_proc_file(folder + "status");
    const std::size_t at = status ? status->find(kName) : std::string::npos;
    return at != std::string::npos ? std::strtoull(status->c_str() + at + kName.size(), nullptr, 10)
                                   : 0;
}

} // namespace

bool ComputingThreads::computes(Tid pid, Tid tid) {
    const std::string folder = fmt::format("/proc/{}/task/{}/", pid.value(), tid.value());
    const Look now{executed_ns(folder), sleeps(folder)};
    const auto [first, is_new] = first_looks_.try_emplace(tid, now);
    if (!is_new && first->second.sleeps != now.sleeps) {
        first->second = now;
    }
    return now.executed_ns - first->second.executed_ns >= needed_ns();
}

} // namespace memleax
