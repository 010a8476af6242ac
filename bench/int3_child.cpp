// SPDX-License-Identifier: GPL-3.0-or-later
#include "int3_child.hpp"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <set>
#include <string>
#include <thread>

#include <sched.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

namespace memleax::bench {

namespace {

[[noreturn]] void die(const char* what) {
    std::perror(what);
    std::exit(1);
}

[[noreturn]] void execute_breakpoints(int go) {
    char byte = 0;
    if (read(go, &byte, 1) != 1) {
        _exit(0); // the parent is gone
    }
    for (;;) {
#if defined(__x86_64__)
        asm volatile("int3");
#elif defined(__aarch64__)
        asm volatile("brk #0"); // the tracer moves the pc on
#endif
    }
}

[[noreturn]] void run_child(unsigned threads, int cpu, int ready, int go) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (cpu >= 0) {
        pin_to_cpu(cpu);
    }
    for (unsigned i = 1; i < threads; ++i) {
        std::thread(execute_breakpoints, go).detach();
    }
    if (write(ready, "r", 1) != 1) {
        _exit(1);
    }
    execute_breakpoints(go);
}

} // namespace

void pin_to_cpu(int cpu) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int i = 0; i < CPU_SETSIZE; ++i) {
        if (cpu < 0 || i == cpu) {
            CPU_SET(i, &set);
        }
    }
    sched_setaffinity(0, sizeof set, &set);
}

Int3Child::Int3Child(unsigned threads, int cpu) : threads_(threads) {
    int ready[2];
    int go[2];
    if (pipe(ready) != 0 || pipe(go) != 0) {
        die("pipe");
    }
    pid_ = fork();
    if (pid_ < 0) {
        die("fork");
    }
    if (pid_ == 0) {
        close(ready[0]);
        close(go[1]);
        run_child(threads, cpu, ready[1], go[0]);
    }
    close(ready[1]);
    close(go[0]);
    go_ = go[1];
    char byte = 0;
    if (read(ready[0], &byte, 1) != 1) {
        die("the child's start");
    }
    close(ready[0]);
    seize_threads(threads);
}

void Int3Child::seize_threads(unsigned threads) {
    std::set<pid_t> seized;
    while (seized.size() < threads) {
        const std::string folder = "/proc/" + std::to_string(pid_) + "/task";
        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
            const pid_t tid = std::stoi(entry.path().filename());
            if (seized.insert(tid).second &&
                ptrace(PTRACE_SEIZE, tid, nullptr, PTRACE_O_EXITKILL) != 0) {
                die("PTRACE_SEIZE");
            }
        }
    }
}

void Int3Child::go() {
    const std::string bytes(threads_, 'g');
    if (write(go_, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) {
        die("the child's go");
    }
}

Int3Child::~Int3Child() {
    kill(pid_, SIGKILL);
    // The leader is reported last.
    int status = 0;
    while (waitpid(-1, &status, __WALL) > 0 || errno == EINTR) {
    }
    close(go_);
}

} // namespace memleax::bench
