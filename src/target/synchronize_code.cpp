// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <semaphore>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <linux/membarrier.h>
#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "memleax/base/all_signals_blocked.hpp"
#include "memleax/base/thread_priority.hpp"
#include "memleax/target/code_patch.hpp"

namespace memleax {

namespace {

constexpr std::size_t kMostCpus = 64; // a thread for each takes time, too
constexpr std::chrono::milliseconds kMostUntilVisited(3);
constexpr std::chrono::milliseconds kBetweenCallsBack(1);

/// As the heading of /proc/interrupts names them. Empty if it is not known. Not from
/// /sys/devices/system/cpu/online, nor /proc/stat: in a container they may be lxcfs's, and show as
/// many as its quota has. Other CPUs than those execute the target then.
std::vector<int> online_cpus() {
    constexpr std::string_view kName = "CPU";
    std::ifstream file("/proc/interrupts");
    std::string heading;
    std::getline(file, heading);
    std::vector<int> result;
    for (std::size_t at = heading.find(kName); at != std::string::npos;
         at = heading.find(kName, at)) {
        at += kName.size();
        result.push_back(std::atoi(heading.c_str() + at));
    }
    return result;
}

cpu_set_t only(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(static_cast<std::size_t>(cpu), &set); // of none beyond CPU_SETSIZE
    return set;
}

/// Threads of ours, each of which executes something on one CPU.
class Visits {
  public:
    Visits() = default;
    ~Visits() {
        for (std::thread& thread : threads_) {
            thread.join();
        }
    }
    Visits(const Visits&) = delete;
    Visits& operator=(const Visits&) = delete;

    /// Have all these been executing one now? False: we may not, or somebody else keeps one to
    /// himself (SCHED_FIFO).
    bool make(const std::vector<int>& cpus) {
        if (sched_getaffinity(0, sizeof usual_, &usual_) != 0) {
            return false;
        }
        threads_.reserve(cpus.size());
        const bool have_begun =
            std::all_of(cpus.begin(), cpus.end(), [this](int cpu) { return begin(cpu); });
        const bool have_ended = await_end();
        return have_begun && have_ended && made_ == cpus.size();
    }

  private:
    bool begin(int cpu) {
        try {
            threads_.emplace_back([this, cpu] { visit(cpu); });
        } catch (const std::exception&) {
            return false;
        }
        // By us: by itself it would have to wait for a CPU before.
        const sched_param lowest{.sched_priority = sched_get_priority_min(SCHED_RR)};
        return pthread_setschedparam(threads_.back().native_handle(), SCHED_RR, &lowest) == 0;
    }

    // What it is allowed may change at any moment (cpusets), and a CPU go offline. Where it is, it
    // is for certain. It does not end there, as it might be kept from it.
    void visit(int cpu) {
        const cpu_set_t one = only(cpu);
        if (sched_setaffinity(0, sizeof one, &one) == 0 && sched_getcpu() == cpu) {
            ++made_;
        }
        sched_setaffinity(0, sizeof usual_, &usual_);
        ended_.release();
    }

    /// Those that do not get their CPU are called back: they would keep our process from ending.
    bool await_end() {
        const auto deadline = std::chrono::steady_clock::now() + kMostUntilVisited;
        bool in_time = true;
        for (std::size_t left = threads_.size(); left > 0;) {
            if (in_time ? ended_.try_acquire_until(deadline)
                        : ended_.try_acquire_for(kBetweenCallsBack)) {
                --left;
                continue;
            }
            in_time = false;
            for (std::thread& thread : threads_) {
                pthread_setaffinity_np(thread.native_handle(), sizeof usual_, &usual_);
            }
        }
        return in_time;
    }

    std::vector<std::thread> threads_;
    std::counting_semaphore<> ended_{0};
    std::atomic<std::size_t> made_ = 0;
    cpu_set_t usual_{};
};

} // namespace

// A CPU that has executed a thread of ours has our address space: before it executes the target
// again it changes to another, by a write to CR3, which serializes it (Intel SDM volume 3, 9.3;
// switch_mm_irqs_off of the kernel does so even if the target's thread only slept there). On arm64
// it returns from an exception, which synchronizes it; what it had in its instruction cache went as
// the kernel wrote (copy_to_user_page). A thread of the target's brings nothing from a CPU that has
// not been visited yet, as what is decoded is the CPU's. One that comes online now had nothing of
// the target.
bool visit_all_cpus() {
    const BeforeOthers before_others; // if we may not, nor may they; and we have to see their end
    const std::vector<int> cpus = runs_before_others() ? online_cpus() : std::vector<int>();
    if (cpus.empty() || cpus.size() > kMostCpus || cpus.back() >= CPU_SETSIZE) {
        return false;
    }
    const AllSignalsBlocked blocked; // the thread that handles a fatal one waits for the tracer's
    return Visits().make(cpus);
}

// MEMBARRIER_CMD_GLOBAL waits until each CPU has passed through the scheduler or interrupted what
// it executes (kernel/sched/membarrier.c, synchronize_rcu), which serializes it (Intel SDM volume
// 3, 9.1.3, "Handling Self- and Cross-Modifying Code").
Result<void> wait_for_all_cpus() {
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_GLOBAL, 0, 0) != 0) {
        return Error("membarrier", errno);
    }
    return {};
}

Result<void> synchronize_code() {
    return visit_all_cpus() ? Result<void>() : wait_for_all_cpus();
}

} // namespace memleax
