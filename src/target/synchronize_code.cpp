// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <semaphore>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/base/thread_priority.hpp"
#include "memleax/target/code_patch.hpp"

namespace memleax {

namespace {

/// As in /sys/devices/system/cpu/online: "0-3,8". Empty if it is not known.
std::vector<int> online_cpus() {
    std::ifstream file("/sys/devices/system/cpu/online");
    std::vector<int> result;
    for (std::string part; std::getline(file, part, ',');) {
        int first = 0;
        int last = 0;
        const int numbers = std::sscanf(part.c_str(), "%d-%d", &first, &last);
        for (int cpu = first; numbers > 0 && cpu <= (numbers > 1 ? last : first); ++cpu) {
            result.push_back(cpu);
        }
    }
    return result;
}

/// A thread of ours runs on each CPU: that one goes through the scheduler, from one address space
/// to another and back, which serializes it (writes to CR3, exception returns). False: not on each,
/// or not within a few milliseconds, as a CPU may be somebody's for as long as he likes
/// (SCHED_FIFO).
bool run_on_each_cpu() {
    constexpr std::size_t kMostCpus = 64; // a thread for each takes time, too
    constexpr std::chrono::milliseconds kMost(5);
    const std::vector<int> cpus = online_cpus();
    if (cpus.empty() || cpus.size() > kMostCpus) {
        return false;
    }
    struct Visits {
        std::counting_semaphore<> ended{0};
        std::atomic<bool> any_refused = false;
    };
    const auto visits = std::make_shared<Visits>();
    try {
        for (const int cpu : cpus) {
            std::thread visit([visits, cpu] {
                cpu_set_t one;
                CPU_ZERO(&one);
                CPU_SET(cpu, &one); // of none beyond CPU_SETSIZE
                if (sched_setaffinity(0, sizeof one, &one) != 0) {
                    visits->any_refused = true;
                }
                visits->ended.release();
            });
            // By us: by itself it would have to wait for a CPU before.
            const sched_param lowest{.sched_priority = sched_get_priority_min(SCHED_RR)};
            pthread_setschedparam(visit.native_handle(), SCHED_RR, &lowest);
            visit.detach();
        }
    } catch (const std::system_error&) {
        return false;
    }
    const auto deadline = std::chrono::steady_clock::now() + kMost;
    const bool have_ended = std::all_of(cpus.begin(), cpus.end(), [&](int /*cpu*/) {
        return visits->ended.try_acquire_until(deadline);
    });
    return have_ended && !visits->any_refused;
}

} // namespace

// MEMBARRIER_CMD_GLOBAL waits until each CPU has passed through the scheduler or interrupted what
// it executes (kernel/sched/membarrier.c, synchronize_rcu), which serializes it (Intel SDM volume
// 3, 9.1.3, "Handling Self- and Cross-Modifying Code").
Result<void> synchronize_code() {
    // By threads of ours that takes a tenth of a millisecond, and not five to nine, if they need
    // not wait for a CPU.
    if (runs_before_others() && run_on_each_cpu()) {
        return {};
    }
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0) {
        return Error("membarrier", errno);
    }
    return {};
}

} // namespace memleax
