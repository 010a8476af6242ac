// SPDX-License-Identifier: GPL-3.0-or-later
// What a stop costs when waited for, looked at and resumed in different ways. The engine's way was
// chosen with these figures (docs/performance.md). The variants take turns, so that what else runs
// on the machine hits all of them; the best and the median round are printed.
//
//      hot_path [ROUNDS [STOPS]]
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>

#include <elf.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include "int3_child.hpp"

namespace memleax::bench {
namespace {

enum class Wait { block, spin, spin_yield, last_first };
enum class Get { regs, regset, peek_pc, peek_pc_sp };
enum class Set { regs, regset, poke_pc, nothing };
enum class Read { nothing, vm_readv, mem };
enum class SigChld { usual, ignored, blocked, no_stop }; // what becomes of SIGCHLD

struct Variant {
    const char* name;
    unsigned threads = 1;
    Wait wait = Wait::block;
    int polls = 0;
    bool no_thread = false; // __WNOTHREAD
    Get get = Get::regs;
    Set set = Set::regs;
    Read read = Read::nothing;
    std::size_t bytes = 0;
    SigChld sigchld = SigChld::usual;
    int tracer_cpu = -1;
    int child_cpu = -1;
    std::vector<double> results{};
};

class Loop {
  public:
    Loop(const Variant& variant, const Int3Child& child) : variant_(variant), pid_(child.pid()) {
        const std::string path = "/proc/" + std::to_string(pid_) + "/mem";
        memory_ = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    }
    ~Loop() { close(memory_); }
    Loop(const Loop&) = delete;
    Loop& operator=(const Loop&) = delete;

    void handle_stops(unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            last_ = wait_for_stop();
            look_at(last_);
            ptrace(PTRACE_CONT, last_, nullptr, nullptr);
        }
    }

  private:
    pid_t wait_for_stop() {
        const int flags = __WALL | (variant_.no_thread ? __WNOTHREAD : 0);
        int status = 0;
        if (variant_.wait == Wait::last_first && last_ > 0) {
            const pid_t got = waitpid(last_, &status, flags | WNOHANG);
            if (got > 0) {
                return got;
            }
        }
        for (int i = 0; i < variant_.polls; ++i) {
            const pid_t got = waitpid(-1, &status, flags | WNOHANG);
            if (got > 0) {
                return got;
            }
            if (variant_.wait == Wait::spin_yield) {
                sched_yield();
            }
        }
        const pid_t got = waitpid(-1, &status, flags);
        if (got <= 0 || !WIFSTOPPED(status)) {
            std::perror("waitpid");
            std::exit(1);
        }
        return got;
    }

    void look_at(pid_t tid) {
        user_regs_struct regs{};
        iovec io{&regs, sizeof regs};
        switch (variant_.get) {
        case Get::regs:
            ptrace(PTRACE_GETREGS, tid, nullptr, &regs);
            break;
        case Get::regset:
            ptrace(PTRACE_GETREGSET, tid, NT_PRSTATUS, &io);
            break;
        case Get::peek_pc_sp:
            regs.rsp = peek(tid, offsetof(user, regs.rsp));
            [[fallthrough]];
        case Get::peek_pc:
            regs.rip = peek(tid, offsetof(user, regs.rip));
            break;
        }
        iovec local{buffer_, variant_.bytes};
        // NOLINTNEXTLINE(performance-no-int-to-ptr)
        iovec remote{reinterpret_cast<void*>(regs.rsp), variant_.bytes};
        switch (variant_.read) {
        case Read::nothing:
            break;
        case Read::vm_readv:
            process_vm_readv(pid_, &local, 1, &remote, 1, 0);
            break;
        case Read::mem:
            (void)!pread(memory_, buffer_, variant_.bytes, static_cast<off_t>(regs.rsp));
            break;
        }
        switch (variant_.set) {
        case Set::regs:
            ptrace(PTRACE_SETREGS, tid, nullptr, &regs);
            break;
        case Set::regset:
            ptrace(PTRACE_SETREGSET, tid, NT_PRSTATUS, &io);
            break;
        case Set::poke_pc:
            ptrace(PTRACE_POKEUSER, tid, offsetof(user, regs.rip), regs.rip);
            break;
        case Set::nothing:
            break;
        }
    }

    static std::uint64_t peek(pid_t tid, std::size_t offset) {
        return static_cast<std::uint64_t>(ptrace(PTRACE_PEEKUSER, tid, offset, nullptr));
    }

    const Variant& variant_;
    pid_t pid_;
    pid_t last_ = 0;
    int memory_ = -1;
    char buffer_[65536];
};

void on_sigchld(int /*signal*/) {}

void set_sigchld(SigChld how) {
    struct sigaction action {};
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGCHLD);
    sigprocmask(how == SigChld::blocked ? SIG_BLOCK : SIG_UNBLOCK, &set, nullptr);
    action.sa_handler = SIG_DFL;
    if (how == SigChld::no_stop) {
        // With a handler, so that it is seen to be called for no stop.
        action.sa_handler = on_sigchld;
        action.sa_flags = SA_NOCLDSTOP;
    }
    sigaction(SIGCHLD, &action, nullptr);
}

double measure(const Variant& variant, unsigned stops) {
    pin_to_cpu(variant.tracer_cpu);
    set_sigchld(variant.sigchld);
    Int3Child child(variant.threads, variant.child_cpu);
    Loop loop(variant, child);
    child.go();
    loop.handle_stops(stops / 10 + variant.threads);
    const auto begin = std::chrono::steady_clock::now();
    loop.handle_stops(stops);
    const std::chrono::duration<double, std::nano> spent = std::chrono::steady_clock::now() - begin;
    return spent.count() / stops;
}

std::vector<Variant> variants() {
    return {
        {.name = "block, GETREGS, SETREGS, CONT"},
        {.name = "(1) block, __WNOTHREAD", .no_thread = true},
        {.name = "(2) spin 20", .wait = Wait::spin, .polls = 20},
        {.name = "(2) spin 100", .wait = Wait::spin, .polls = 100},
        {.name = "(2) spin 1000", .wait = Wait::spin, .polls = 1000},
        {.name = "(2) spin 100 with sched_yield", .wait = Wait::spin_yield, .polls = 100},
        {.name = "(3) same CPU, block", .tracer_cpu = 0, .child_cpu = 0},
        {.name = "(3) same CPU, spin 100 with sched_yield",
         .wait = Wait::spin_yield,
         .polls = 100,
         .tracer_cpu = 0,
         .child_cpu = 0},
        {.name = "(3) different CPUs, block", .tracer_cpu = 0, .child_cpu = 1},
        {.name = "(3) different CPUs, spin 100",
         .wait = Wait::spin,
         .polls = 100,
         .tracer_cpu = 0,
         .child_cpu = 1},
        {.name = "(4) SIGCHLD blocked", .sigchld = SigChld::blocked},
        {.name = "(4) SA_NOCLDSTOP", .sigchld = SigChld::no_stop},
        {.name = "(5) POKEUSER rip", .set = Set::poke_pc},
        {.name = "(5) no set at all", .set = Set::nothing},
        {.name = "(6) GETREGSET, SETREGSET", .get = Get::regset, .set = Set::regset},
        {.name = "(6) GETREGSET, POKEUSER rip", .get = Get::regset, .set = Set::poke_pc},
        {.name = "(6) PEEKUSER rip, POKEUSER rip", .get = Get::peek_pc, .set = Set::poke_pc},
        {.name = "(6) PEEKUSER rip rsp, POKEUSER rip", .get = Get::peek_pc_sp, .set = Set::poke_pc},
        {.name = "(7) process_vm_readv 512", .read = Read::vm_readv, .bytes = 512},
        {.name = "(7) process_vm_readv 2048", .read = Read::vm_readv, .bytes = 2048},
        {.name = "(7) process_vm_readv 4096", .read = Read::vm_readv, .bytes = 4096},
        {.name = "(7) pread mem 512", .read = Read::mem, .bytes = 512},
        {.name = "(7) pread mem 2048", .read = Read::mem, .bytes = 2048},
        {.name = "(7) pread mem 4096", .read = Read::mem, .bytes = 4096},
        {.name = "(8) 4 threads, block", .threads = 4},
        {.name = "(8) 4 threads, __WNOTHREAD", .threads = 4, .no_thread = true},
        {.name = "(8) 4 threads, last tid first", .threads = 4, .wait = Wait::last_first},
        {.name = "(8) 4 threads, spin 100 with sched_yield",
         .threads = 4,
         .wait = Wait::spin_yield,
         .polls = 100},
        {.name = "(8) 16 threads, block", .threads = 16},
        {.name = "(8) 16 threads, last tid first", .threads = 16, .wait = Wait::last_first},
        {.name = "(8) 16 threads, spin 100 with sched_yield",
         .threads = 16,
         .wait = Wait::spin_yield,
         .polls = 100},
        {.name = "(8) 64 threads, block", .threads = 64},
        {.name = "(8) 64 threads, last tid first", .threads = 64, .wait = Wait::last_first},
        {.name = "(8) 64 threads, spin 100 with sched_yield",
         .threads = 64,
         .wait = Wait::spin_yield,
         .polls = 100},
        {.name = "all: spin_yield 100, NOTHREAD, GETREGSET, vm_readv 1K, POKEUSER",
         .wait = Wait::spin_yield,
         .polls = 100,
         .no_thread = true,
         .get = Get::regset,
         .set = Set::poke_pc,
         .read = Read::vm_readv,
         .bytes = 1024},
    };
}

} // namespace
} // namespace memleax::bench

int main(int argc, char** argv) {
    using namespace memleax::bench;
    const int rounds = argc > 1 ? std::atoi(argv[1]) : 15;
    const unsigned stops = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 4000;
    auto all = variants();
    for (int round = 0; round < rounds; ++round) {
        for (Variant& variant : all) {
            variant.results.push_back(measure(variant, stops));
        }
    }
    double reference = 0;
    std::printf("%-66s %7s %7s %6s\n", "ns per stop", "best", "median", "ratio");
    for (Variant& variant : all) {
        std::sort(variant.results.begin(), variant.results.end());
        const double best = variant.results.front();
        reference = reference == 0 ? best : reference;
        std::printf("%-66s %7.0f %7.0f %6.2f\n", variant.name, best,
                    variant.results[variant.results.size() / 2], best / reference);
    }
}
