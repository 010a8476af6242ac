// SPDX-License-Identifier: GPL-3.0-or-later
// The program that is watched in the benchmarks: threads that allocate and free eight frames deep,
// live blocks in any number, and a busy thread that notices when it is not let run. It does what it
// is told on stdin, and answers each line with one on stdout:
//
// clang-format off
//      alloc_target [THREADS]                      ready PID
//      live N      hold N blocks in all            live N seconds X
//      pairs N [SHAPE]                             pairs TOTAL ns_per_pair X     (wall time / TOTAL)
//                  N pairs in each thread: "plain" (8 frames), "deep" (30 frames), "paths" (14
//                  frames, by each of 1,024 paths in turn), "late" (each block is freed when 4,096
//                  others have been allocated)
//      gap start   begin to look for gaps          gap started
//      gap stop    the longest one since then      gap max_ns X
//      quit, or the end of stdin
// clang-format on
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <sys/mman.h>
#include <unistd.h>

namespace {

using Clock = std::chrono::steady_clock;

double nanoseconds(Clock::duration duration) {
    return std::chrono::duration<double, std::nano>(duration).count();
}

constexpr std::size_t kBlockBytes = 24;

/// The innermost frame. Its result is the block, or null if that is freed again.
[[gnu::noinline]] void* f8(bool keep) {
    void* block = std::malloc(kBlockBytes);
    asm volatile("" : "+r"(block) : : "memory"); // the pair must not be optimized away
    if (keep) {
        return block;
    }
    std::free(block);
    return nullptr;
}

// A frame with something in it; the asm after the call keeps that from being a jump.
#define MEMLEAX_FRAME(name, callee)                                                                \
    [[gnu::noinline]] void* name(bool keep) {                                                      \
        char local[40];                                                                            \
        asm volatile("" : : "r"(local) : "memory");                                                \
        void* block = callee(keep);                                                                \
        asm volatile("" : "+r"(block) : "r"(local) : "memory");                                    \
        return block;                                                                              \
    }
MEMLEAX_FRAME(f7, f8)
MEMLEAX_FRAME(f6, f7)
MEMLEAX_FRAME(f5, f6)
MEMLEAX_FRAME(f4, f5)
MEMLEAX_FRAME(f3, f4)
MEMLEAX_FRAME(f2, f3)
MEMLEAX_FRAME(f1, f2)
#undef MEMLEAX_FRAME

/// So many frames more; which of two places calls the next one, each bit of `path` says.
template <int kLevels> [[gnu::noinline]] void* level(unsigned path, bool keep) {
    char local[40];
    asm volatile("" : : "r"(local) : "memory");
    void* block = nullptr;
    if constexpr (kLevels == 0) {
        block = f8(keep);
    } else if (path % 2 == 0) {
        block = level<kLevels - 1>(path / 2, keep);
    } else {
        block = level<kLevels - 1>(path / 2, keep);
        asm volatile("nop" : "+r"(block) : "r"(local) : "memory"); // not the same place
    }
    asm volatile("" : "+r"(block) : "r"(local) : "memory");
    return block;
}

enum class Shape { plain, deep, paths, late };

Shape shape_of(const char* name) {
    for (const auto& [each, its_name] :
         {std::pair{Shape::deep, "deep"}, {Shape::paths, "paths"}, {Shape::late, "late"}}) {
        if (std::strcmp(name, its_name) == 0) {
            return each;
        }
    }
    return Shape::plain;
}

void make_pairs(Shape shape, unsigned long pairs) {
    constexpr int kDeep = 26;   // with those around it, 30
    constexpr int kLevels = 10; // of two places each: 1,024 paths
    constexpr std::size_t kLate = 4096;
    switch (shape) {
    case Shape::plain:
        for (unsigned long i = 0; i < pairs; ++i) {
            f1(false);
        }
        break;
    case Shape::deep:
        for (unsigned long i = 0; i < pairs; ++i) {
            level<kDeep>(0, false);
        }
        break;
    case Shape::paths:
        for (unsigned long i = 0; i < pairs; ++i) {
            level<kLevels>(static_cast<unsigned>(i), false);
        }
        break;
    case Shape::late:
        thread_local void* kept[kLate];
        for (unsigned long i = 0; i < pairs; ++i) {
            std::free(kept[i % kLate]);
            kept[i % kLate] = f1(true);
        }
        for (void*& block : kept) {
            std::free(block);
            block = nullptr;
        }
        break;
    }
}

/// Threads that all do the same number of pairs when told, and sleep in between.
class Workers {
  public:
    explicit Workers(unsigned count) {
        for (unsigned i = 0; i < count; ++i) {
            threads_.emplace_back([this] { work(); });
        }
    }
    ~Workers() {
        start(0, Shape::plain, true);
        for (std::thread& thread : threads_) {
            thread.join();
        }
    }
    Workers(const Workers&) = delete;
    Workers& operator=(const Workers&) = delete;

    /// Wall time from the first pair to the last.
    Clock::duration run(unsigned long pairs, Shape shape) {
        const auto begin = Clock::now();
        start(pairs, shape, false);
        std::unique_lock lock(mutex_);
        done_.wait(lock, [this] { return running_ == 0; });
        return Clock::now() - begin;
    }
    [[nodiscard]] std::size_t count() const { return threads_.size(); }

  private:
    void start(unsigned long pairs, Shape shape, bool quit) {
        {
            const std::lock_guard lock(mutex_);
            pairs_ = pairs;
            shape_ = shape;
            quit_ = quit;
            running_ = threads_.size();
            ++phase_;
        }
        go_.notify_all();
    }
    void work() {
        unsigned long seen = 0;
        for (;;) {
            std::unique_lock lock(mutex_);
            go_.wait(lock, [&] { return phase_ != seen; });
            seen = phase_;
            if (quit_) {
                return;
            }
            const unsigned long pairs = pairs_;
            const Shape shape = shape_;
            lock.unlock();
            make_pairs(shape, pairs);
            lock.lock();
            if (--running_ == 0) {
                done_.notify_one();
            }
        }
    }

    std::mutex mutex_;
    std::condition_variable go_;
    std::condition_variable done_;
    unsigned long pairs_ = 0;
    Shape shape_ = Shape::plain;
    unsigned long phase_ = 0;
    std::size_t running_ = 0;
    bool quit_ = false;
    std::vector<std::thread> threads_;
};

/// The blocks that stay. Their addresses are kept in pages of our own, not in the heap.
class LiveBlocks {
  public:
    LiveBlocks() {
        void* pages = mmap(nullptr, kMax * sizeof(void*), PROT_READ | PROT_WRITE,
                           MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (pages == MAP_FAILED) {
            std::perror("alloc_target: mmap");
            std::exit(1);
        }
        blocks_ = static_cast<void**>(pages);
    }
    void resize(std::size_t count) {
        count = std::min(count, kMax);
        while (count_ < count) {
            blocks_[count_++] = f1(true);
        }
        while (count_ > count) {
            std::free(blocks_[--count_]);
        }
    }
    [[nodiscard]] std::size_t count() const { return count_; }

  private:
    static constexpr std::size_t kMax = 20'000'000;
    void** blocks_ = nullptr;
    std::size_t count_ = 0;
};

/// A thread that reads the clock without a pause: the longest time between two readings is the
/// longest time for which it stood still.
class GapMeter {
  public:
    ~GapMeter() { stop(); }
    void start() {
        stop();
        quit_ = false;
        thread_ = std::thread([this] { watch(); });
    }
    Clock::duration stop() {
        if (thread_.joinable()) {
            quit_ = true;
            thread_.join();
        }
        return longest_;
    }

  private:
    void watch() {
        longest_ = {};
        auto last = Clock::now();
        while (!quit_.load(std::memory_order_relaxed)) {
            const auto now = Clock::now();
            longest_ = std::max(longest_, now - last);
            last = now;
        }
    }
    std::atomic<bool> quit_{false};
    Clock::duration longest_{};
    std::thread thread_;
};

} // namespace

int main(int argc, char** argv) {
    const int threads = argc > 1 ? std::atoi(argv[1]) : 1;
    if (threads < 1 || threads > 1024) {
        std::fprintf(stderr, "usage: alloc_target [THREADS]\n");
        return 2;
    }
    std::setvbuf(stdout, nullptr, _IOLBF, 0);
    Workers workers(static_cast<unsigned>(threads));
    LiveBlocks live;
    GapMeter gap;
    std::printf("ready %d\n", getpid());

    char line[128];
    while (std::fgets(line, sizeof line, stdin) != nullptr) {
        unsigned long number = 0;
        char shape[16] = "plain";
        if (std::sscanf(line, "live %lu", &number) == 1) {
            const auto begin = Clock::now();
            live.resize(number);
            std::printf("live %zu seconds %.3f\n", live.count(),
                        nanoseconds(Clock::now() - begin) / 1e9);
        } else if (std::sscanf(line, "pairs %lu %15s", &number, shape) >= 1 && number > 0) {
            const double spent = nanoseconds(workers.run(number, shape_of(shape)));
            const double total = static_cast<double>(number) * static_cast<double>(workers.count());
            std::printf("pairs %.0f ns_per_pair %.1f\n", total, spent / total);
        } else if (std::strcmp(line, "gap start\n") == 0) {
            gap.start();
            std::printf("gap started\n");
        } else if (std::strcmp(line, "gap stop\n") == 0) {
            std::printf("gap max_ns %.0f\n", nanoseconds(gap.stop()));
        } else if (std::strcmp(line, "quit\n") == 0) {
            break;
        } else {
            std::printf("error: %s", line);
        }
    }
}
