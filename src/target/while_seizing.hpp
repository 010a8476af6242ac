// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <condition_variable>
#include <csignal>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// PTRACE_SEIZE waits for an exec of the process to end (kernel/ptrace.c, cred_guard_mutex), which
/// waits for the threads that it has killed to be reaped: by us, for those that are seized already.
/// Another thread of ours may do that, unlike any other ptrace request. Where none can be made, a
/// timer's signal interrupts the wait, and its handler does it; the kernel then goes on with the
/// request.
///
/// One at a time in a thread.
class WhileSeizing {
  public:
    explicit WhileSeizing(Tid pid);
    ~WhileSeizing() { finish(); }
    WhileSeizing(const WhileSeizing&) = delete;
    WhileSeizing& operator=(const WhileSeizing&) = delete;

    /// Threads of this process, which shares the memory, are seized as well.
    void also(Tid process);
    /// This one is seized by now.
    void add(Tid tid);
    /// Those that have been reaped: nobody will be told of their end.
    std::vector<Tid> finish();

  private:
    static constexpr int kSignal = SIGALRM;

    void run();
    void reap();
    void start_timer();
    void stop_timer();
    static void on_timer(int /*signal*/);
    void reap_seized();

    Tid pid_;
    Tid tracer_;
    std::mutex mutex_;
    std::condition_variable wake_;
    bool done_ = false;
    std::set<Tid> processes_;
    std::vector<Tid> reaped_;
    // Without a thread. The handler uses these, so they change only while its signal is blocked.
    std::vector<Tid> seized_;
    timer_t timer_{};
    bool has_timer_ = false;
    struct sigaction action_before_ {};
    sigset_t mask_before_{};
    std::thread thread_; // last: it uses the others
};

} // namespace memleax
