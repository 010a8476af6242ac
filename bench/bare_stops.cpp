// SPDX-License-Identifier: GPL-3.0-or-later
// What a bare ptrace stop costs here: wait, get registers, set registers, continue, on a child
// whose threads execute nothing but breakpoints. This is the measure that memleax's hits are
// compared with.
//
//      bare_stops [--stops N] [--rounds N] [THREADS...]        for 1, 4, 16 and 64 if not said
//
// One line for each number of threads: wall time / stops, of the best and of the median round.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "int3_child.hpp"

namespace {

using Clock = std::chrono::steady_clock;

void handle_stops(unsigned count) {
    for (unsigned i = 0; i < count; ++i) {
        int status = 0;
        const pid_t tid = waitpid(-1, &status, __WALL);
        if (tid <= 0 || !WIFSTOPPED(status)) {
            std::perror("bare_stops: waitpid");
            std::exit(1);
        }
        user_regs_struct regs{};
        iovec io{&regs, sizeof regs};
#if defined(__x86_64__)
        ptrace(PTRACE_GETREGS, tid, nullptr, &regs);
        ptrace(PTRACE_SETREGS, tid, nullptr, &regs);
        (void)io;
#else
        // brk leaves the pc where it is.
        ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &io);
        regs.pc += 4;
        ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &io);
#endif
        ptrace(PTRACE_CONT, tid, nullptr, nullptr);
    }
}

double ns_per_stop(unsigned threads, unsigned stops) {
    memleax::bench::Int3Child child(threads);
    child.go();
    handle_stops(stops / 10 + threads);
    const auto begin = Clock::now();
    handle_stops(stops);
    return std::chrono::duration<double, std::nano>(Clock::now() - begin).count() / stops;
}

} // namespace

int main(int argc, char** argv) {
    unsigned stops = 20000;
    unsigned rounds = 5;
    std::vector<unsigned> threads;
    for (int i = 1; i < argc; ++i) {
        const bool has_value = i + 1 < argc;
        if (std::strcmp(argv[i], "--stops") == 0 && has_value) {
            stops = static_cast<unsigned>(std::atoi(argv[++i]));
        } else if (std::strcmp(argv[i], "--rounds") == 0 && has_value) {
            rounds = static_cast<unsigned>(std::atoi(argv[++i]));
        } else if (const int number = std::atoi(argv[i]); number > 0) {
            threads.push_back(static_cast<unsigned>(number));
        } else {
            std::fprintf(stderr, "usage: bare_stops [--stops N] [--rounds N] [THREADS...]\n");
            return 2;
        }
    }
    if (stops == 0 || rounds == 0) {
        return 2;
    }
    if (threads.empty()) {
        threads = {1, 4, 16, 64};
    }
    for (const unsigned count : threads) {
        std::vector<double> results;
        for (unsigned round = 0; round < rounds; ++round) {
            results.push_back(ns_per_stop(count, stops));
        }
        std::sort(results.begin(), results.end());
        std::printf("threads %u ns_per_stop %.0f median %.0f\n", count, results.front(),
                    results[results.size() / 2]);
    }
}
