// SPDX-License-Identifier: GPL-3.0-or-later
// The program that is watched in the benchmarks of what stops under each engine: births, signals,
// libraries that come and go. It does what it is told on stdin, and answers each line with one on
// stdout:
//
//      births_target         ready PID
//      WHAT N                WHAT N ns_each X
//      quit, or the end of stdin
//
// WHAT: "threads" that allocate once, "forks" of children that end at once, "spawns" of /bin/true
// by posix_spawn(3), "signals" to itself, "libraries" that are loaded and unloaded.
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <dlfcn.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

namespace {

void fail(const char* what) {
    std::perror(what);
    std::exit(1);
}

void allocate() {
    void* block = std::malloc(100);
    asm volatile("" : "+r"(block) : : "memory"); // the pair must not be optimized away
    std::free(block);
}

void make_thread() {
    std::thread(allocate).join();
}

void await(pid_t child) {
    if (child < 0 || waitpid(child, nullptr, 0) != child) {
        fail("child");
    }
}

void make_fork() {
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    await(child);
}

void spawn() {
    char name[] = "/bin/true";
    char* const arguments[] = {name, nullptr};
    pid_t child = -1;
    if (posix_spawn(&child, name, nullptr, nullptr, arguments, environ) != 0) {
        fail("posix_spawn");
    }
    await(child);
}

void send_signal() {
    std::raise(SIGUSR1);
}

void load_library() {
    void* library = dlopen("libz.so.1", RTLD_NOW);
    if (library == nullptr) {
        fail("dlopen");
    }
    dlclose(library);
}

constexpr struct {
    const char* name;
    void (*act)();
} kWhat[] = {{"threads", make_thread},
             {"forks", make_fork},
             {"spawns", spawn},
             {"signals", send_signal},
             {"libraries", load_library}};

} // namespace

int main() {
    using Clock = std::chrono::steady_clock;
    std::signal(SIGUSR1, [](int) {});
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    std::printf("ready %d\n", getpid());
    char line[128];
    while (std::fgets(line, sizeof line, stdin) != nullptr && std::strcmp(line, "quit\n") != 0) {
        char name[16];
        unsigned long number = 0;
        if (std::sscanf(line, "%15s %lu", name, &number) != 2 || number == 0) {
            return 2;
        }
        for (const auto& what : kWhat) {
            if (std::strcmp(name, what.name) == 0) {
                const auto begin = Clock::now();
                for (unsigned long i = 0; i < number; ++i) {
                    what.act();
                }
                const std::chrono::duration<double, std::nano> spent = Clock::now() - begin;
                std::printf("%s %lu ns_each %.0f\n", name, number,
                            spent.count() / static_cast<double>(number));
            }
        }
    }
}
