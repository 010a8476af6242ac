// SPDX-License-Identifier: GPL-3.0-or-later
#include "kill_support.hpp"

#include <chrono>
#include <csignal>
#include <fstream>
#include <thread>

#include <fmt/format.h>

#include "memleax/proc/process_info.hpp"

namespace memleax::testing {

SignalAtPtraceCall::SignalAtPtraceCall(Memleax& memleax, int call, const std::string& signal) {
    std::vector<std::string> command{"strace", "-o", "/dev/null", "-e",
                                     fmt::format("inject=ptrace:signal={}:when={}", signal, call)};
    const std::vector<Tid> threads = list_threads(Tid(memleax.process().pid()));
    for (const Tid tid : threads) {
        command.insert(command.end(), {"-p", std::to_string(tid.value())});
    }
    strace_.emplace(command);
    // A line for each, unless it has killed them already: "Process TID attached", or "attach: ...:
    // No such process" for one that has ended since, as the thread of a barrier (CodeBarrier) does.
    for (std::size_t i = 0; i < threads.size() && strace_->find_error_line(" attach"); ++i) {
    }
}

void kill_at_random_moment(Memleax& memleax, Stress& stress, int most_us) {
    std::this_thread::sleep_for(std::chrono::microseconds(stress.number_to(most_us)));
    memleax.process().signal(SIGKILL);
}

std::optional<pid_t> guardian_of(Memleax& memleax) {
    const pid_t pid = memleax.process().pid();
    std::ifstream children(fmt::format("/proc/{}/task/{}/children", pid, pid));
    pid_t guardian = 0;
    return children >> guardian ? std::optional(guardian) : std::nullopt;
}

} // namespace memleax::testing
