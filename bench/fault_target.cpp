// SPDX-License-Identifier: GPL-3.0-or-later
// What bench/faults.py watches: touches pages and computes in between, so that untraced it touches
// so many pages a second. Each line "touch PAGES SPINS" is answered with "ns WALL CPU".
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include <sys/mman.h>
#include <unistd.h>

namespace {

constexpr std::size_t kPagesAtOnce = 64;

std::int64_t now_ns(clockid_t clock) {
    timespec now{};
    clock_gettime(clock, &now);
    return now.tv_sec * 1'000'000'000 + now.tv_nsec;
}

__attribute__((noinline)) void compute(std::uint64_t spins) {
    for (std::uint64_t i = 0; i < spins; ++i) {
        asm volatile("" : : : "memory");
    }
}

__attribute__((noinline)) void touch(volatile char* page) {
    *page = 1;
}

/// Eight frames deep, as in alloc_target.
__attribute__((noinline)) void touch_below(volatile char* page, int frames) {
    if (frames == 0) {
        touch(page);
    } else {
        touch_below(page, frames - 1);
    }
    asm volatile("" : : : "memory"); // no tail call
}

void touch_and_compute(std::uint64_t pages, std::uint64_t spins) {
    const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    for (std::uint64_t done = 0; done < pages; done += kPagesAtOnce) {
        void* const memory = mmap(nullptr, kPagesAtOnce * size, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) {
            std::abort();
        }
        for (std::size_t i = 0; i < kPagesAtOnce; ++i) {
            touch_below(static_cast<char*>(memory) + i * size, 6);
            compute(spins);
        }
        munmap(memory, kPagesAtOnce * size);
    }
}

} // namespace

int main() {
    std::puts("ready");
    std::fflush(stdout);
    std::uint64_t pages = 0;
    std::uint64_t spins = 0;
    while (std::scanf(" touch %" SCNu64 " %" SCNu64, &pages, &spins) == 2) {
        const std::int64_t begin = now_ns(CLOCK_MONOTONIC);
        const std::int64_t cpu_begin = now_ns(CLOCK_PROCESS_CPUTIME_ID);
        touch_and_compute(pages, spins);
        std::printf("ns %" PRId64 " %" PRId64 "\n", now_ns(CLOCK_MONOTONIC) - begin,
                    now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_begin);
        std::fflush(stdout);
    }
    return 0;
}
