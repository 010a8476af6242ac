// SPDX-License-Identifier: GPL-3.0-or-later
// What a live block costs us in memory, and an event in time, at a number of live blocks. Each
// number is measured in a process of its own, so that no memory of the one before is there to be
// used again.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <random>
#include <span>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/clock.hpp"
#include "memleax/track/tracker.hpp"

namespace {

using namespace memleax;

constexpr std::uint64_t kHeap = 0x5555'5575'0000;
constexpr std::size_t kStacks = 1000;
constexpr std::size_t kFrames = 8;
constexpr std::int64_t kEventNs = 10'000;    ///< as in a busy target
constexpr std::size_t kEventsPerLook = 2000; ///< the session looks every 20 ms
constexpr std::size_t kPairs = 1'000'000;

std::size_t resident_bytes() {
    std::ifstream statm("/proc/self/statm");
    std::size_t total = 0;
    std::size_t resident = 0;
    statm >> total >> resident;
    return resident * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
}

std::size_t peak_bytes() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

struct Bench {
    Tracker tracker{{.expire_ns = INT64_MAX / 2, .memory_block_max = 0, .call_stack_max = 0}};
    std::vector<std::vector<FrameAddress>> stacks;
    std::int64_t now = 0;
    std::uint64_t events = 0;

    Bench() {
        for (std::uint64_t i = 0; i < kStacks; ++i) {
            std::vector<FrameAddress> stack{FrameAddress::exact(CodeAddr(0x7f0000001000))};
            for (std::uint64_t frame = 1; frame < kFrames; ++frame) {
                stack.push_back(FrameAddress::return_address(CodeAddr(0x400000 + i * 64 + frame)));
            }
            tracker.intern(stack, StackEnd::outermost);
            stacks.push_back(std::move(stack));
        }
    }
    void send(EventKind kind, std::uint64_t address, StackId stack) {
        tracker.on_event({.kind = kind,
                          .tid = Tid(1),
                          .address = RemoteAddr(address),
                          .size = 100,
                          .old_address = {},
                          .stack = stack,
                          .time = MonotonicNs(now += kEventNs)});
        if (++events % kEventsPerLook == 0) {
            tracker.expire(MonotonicNs(now), kEventsPerLook);
        }
    }
    void alloc(std::uint64_t address) {
        const auto& stack = stacks[events % kStacks];
        send(EventKind::alloc, address, tracker.intern(stack, StackEnd::outermost));
    }
    void free(std::uint64_t address) {
        if (!tracker.wants_free_stack(RemoteAddr(address))) {
            send(EventKind::free, address, kNoStack);
        }
    }
};

/// Of this thread's own time: the machine may have other things to do.
std::int64_t cpu_ns() {
    timespec ts{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
    return ts.tv_sec * kNsPerSecond + ts.tv_nsec;
}

double per_pair(std::int64_t begin) {
    return static_cast<double>(cpu_ns() - begin) / kPairs;
}

void measure(std::size_t blocks) {
    std::vector<std::uint32_t> order(kPairs); // before the first look at our memory
    std::mt19937 random(1);
    for (auto& index : order) {
        index = static_cast<std::uint32_t>(random() % blocks);
    }
    Bench bench;
    const std::size_t before = resident_bytes();
    std::int64_t slowest = 0;
    for (std::size_t i = 0; i < blocks; ++i) {
        const std::int64_t begin = cpu_ns();
        bench.alloc(kHeap + i * 112);
        slowest = std::max(slowest, cpu_ns() - begin);
    }
    const auto growth = static_cast<double>(resident_bytes() - before);
    const auto peak = static_cast<double>(std::max(peak_bytes(), before) - before);

    // The usual program: what was allocated last is freed first, while the others live on.
    std::int64_t begin = cpu_ns();
    for (std::size_t i = 0; i < kPairs; ++i) {
        const std::uint64_t address = kHeap + (blocks + i % 16) * 112;
        bench.alloc(address);
        bench.free(address);
    }
    const double recent = per_pair(begin);

    // The worst one: any block may be the next to go.
    const std::size_t fixed_before = resident_bytes();
    begin = cpu_ns();
    for (const std::uint32_t index : order) {
        bench.free(kHeap + std::uint64_t{index} * 112);
        bench.alloc(kHeap + std::uint64_t{index} * 112);
    }
    const double any = per_pair(begin);
    const auto freed_table = static_cast<double>(resident_bytes() - fixed_before);
    std::printf("%9zu %14.1f %14.1f %14.0f %14.0f %14.0f %14.1f\n", blocks,
                growth / static_cast<double>(blocks), peak / static_cast<double>(blocks), recent,
                any, static_cast<double>(slowest) / 1000, freed_table / (1024 * 1024));
    std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
    std::vector<std::size_t> counts{1000, 100'000, 1'000'000, 5'000'000};
    if (argc > 1) {
        counts.clear();
        for (const char* argument : std::span(argv, static_cast<std::size_t>(argc)).subspan(1)) {
            counts.push_back(std::strtoull(argument, nullptr, 10));
        }
    }
    std::printf("%9s %14s %14s %14s %14s %14s %14s\n", "live", "bytes/block", "peak/block",
                "ns/pair recent", "ns/pair any", "slowest us", "freed MiB");
    std::fflush(stdout);
    for (const std::size_t blocks : counts) {
        const pid_t child = fork();
        if (child == 0) {
            measure(blocks);
            _exit(0);
        }
        int status = 0;
        if (child < 0 || waitpid(child, &status, 0) != child || status != 0) {
            std::fprintf(stderr, "track_bench: the measurement at %zu blocks failed\n", blocks);
            return 1;
        }
    }
    return 0;
}
