// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/heap/heap_snapshot.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <poll.h>

#include "arch.hpp"
#include "block_index.hpp"
#include "glibc_places.hpp"
#include "glibc_walk.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/proc/kernel_pointers.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/present_pages.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/remote_memory.hpp"
#include "root_search.hpp"
#include "stopped_process.hpp"
#include "thread_view.hpp"

namespace memleax {

namespace {

/// Walks whose books do not agree, and looks that find a thread at work in an arena: the latter are
/// short.
constexpr int kMostWalks = 2;
constexpr int kMostLooks = 6;

/// What one attempt has come to.
struct Attempt {
    bool was_busy = false; ///< a thread was at work in the allocator
    HeapSnapshot snapshot;
};

/// The words of each block, in one pass.
bool read_links(MemoryReader& memory, const BlockIndex& index, HeapGraph* graph) {
    WordWindow window(memory, WordWindow::kLarge);
    graph->first_link.reserve(graph->blocks.size() + 1);
    for (const HeapBlock& block : graph->blocks) {
        graph->first_link.push_back(graph->links.size());
        const std::uint64_t begin = block.address.value();
        for (std::uint64_t at = begin; at + sizeof at <= begin + block.size; at += sizeof at) {
            const auto word = window.word(at);
            if (!word) {
                return false;
            }
            if (const auto link = index.find(*word)) {
                graph->links.push_back(*link);
            }
        }
    }
    graph->first_link.push_back(graph->links.size());
    return true;
}

std::vector<AddrRange> ascending(std::vector<AddrRange> ranges) {
    std::sort(ranges.begin(), ranges.end(),
              [](const AddrRange& a, const AddrRange& b) { return a.begin < b.begin; });
    return ranges;
}

class Attempts {
  public:
    Attempts(Tid pid, RemoteMemory memory)
        : pid_(pid), memory_(std::move(memory)), modules_(pid, memory_) {}

    /// What has to be known before anybody is stopped.
    Result<void> prepare() {
        auto changes = modules_.refresh();
        if (!changes) {
            return std::move(changes).error();
        }
        const auto libc = find_glibc(modules_);
        if (!libc) {
            return libc.error();
        }
        libc_ = *libc;
        return {};
    }

    Result<HeapSnapshot> run() {
        HeapSnapshot last;
        int walks = 0;
        for (int looks = 0; looks < kMostLooks && walks < kMostWalks; ++looks) {
            auto attempt = in_thread_of_its_own();
            if (!attempt) {
                if (attempt.error().errnum() != EAGAIN) {
                    return std::move(attempt).error();
                }
                last.why = attempt.error().message();
            } else if (attempt->snapshot.complete) {
                return std::move(attempt->snapshot);
            } else {
                walks += attempt->was_busy ? 0 : 1;
                last = std::move(attempt->snapshot);
            }
            log_debug("snapshot {}: {}", looks + 1, last.why);
            // At another moment of what the process does, which may be at regular times.
            poll(nullptr, 0, 1 + looks % 7);
        }
        last.graph = {};
        return last;
    }

  private:
    /// A thread that cannot be stopped stays seized until the tracer's end.
    Result<Attempt> in_thread_of_its_own() {
        std::optional<Result<Attempt>> result;
        std::thread([&] {
            try {
                result.emplace(attempt());
            } catch (const std::exception& broken) {
                result.emplace(Error(fmt::format("internal error: {}", broken.what())));
            }
        }).join();
        return *std::move(result);
    }

    Result<Attempt> attempt() {
        if (auto prepared = prepare(); !prepared) { // a module may have come
            return std::move(prepared).error();
        }
        auto stopped = StoppedProcess::stop(pid_);
        if (!stopped) {
            return std::move(stopped).error();
        }
        auto attempt = look_at(**stopped);
        const std::int64_t pause = (*stopped)->let_go();
        if (attempt) {
            attempt->snapshot.pause_ns = pause;
        }
        return attempt;
    }

    Result<Attempt> look_at(StoppedProcess& process) {
        MemoryReader& memory = process.target().memory();
        const auto places = find_glibc_places(*libc_, modules_, memory);
        if (!places) {
            return places.error();
        }
        Attempt attempt;
        HeapSnapshot& snapshot = attempt.snapshot;
        auto out_of_malloc = leave_malloc(process, *places);
        if (!out_of_malloc) {
            return std::move(out_of_malloc).error();
        }
        const std::vector<ThreadView> threads = *std::move(out_of_malloc);
        if (threads.empty()) {
            attempt.was_busy = true;
            snapshot.why = "a thread was at work in malloc at each look";
            return attempt;
        }
        const auto mappings = read_maps(pid_);
        if (!mappings) {
            return mappings.error();
        }
        snapshot.threads = threads.size();
        std::vector<std::uint64_t> pointers;
        pointers.reserve(threads.size());
        for (const ThreadView& thread : threads) {
            pointers.push_back(thread.thread_pointer);
        }
        const PresentPages pages(pid_);
        GlibcWalk walk(memory, *places, {*mappings, pointers, [&pages](AddrRange range) {
                                             return pages.in(range, PresentPages::Kind::own);
                                         }});
        if (!walk.run()) {
            snapshot.why = walk.why();
            return attempt;
        }
        snapshot.graph.blocks = walk.take_blocks();
        const BlockIndex index(snapshot.graph.blocks);
        RootSearch roots(memory, index, pages);
        roots.add_threads(threads);
        roots.add_words(read_kernel_pointers(pid_));
        roots.add_memory(*mappings, ascending(walk.ranges()), threads);
        snapshot.graph.roots = roots.take();
        snapshot.complete = read_links(memory, index, &snapshot.graph);
        if (!snapshot.complete) {
            snapshot.why = "a part of the heap cannot be read";
        }
        return attempt;
    }

    /// Threads in malloc run on, by turns, until none has an arena locked. Empty: that takes too
    /// long. The others stand still meanwhile, so that fewer and fewer are in malloc.
    Result<std::vector<ThreadView>> leave_malloc(StoppedProcess& process,
                                                 const GlibcPlaces& places) {
        constexpr std::int64_t kMostMs = 1000;
        constexpr int kLongestRunMs = 32; // where the CPUs are busy it takes a while to get one
        int run_ms = 1;
        for (const Patience patience(kMostMs);; run_ms = std::min(2 * run_ms, kLongestRunMs)) {
            auto threads =
                look_at_threads(process.target(), process.threads(), modules_, places.entry_points);
            std::vector<Tid> in_malloc;
            for (const ThreadView& thread : threads) {
                if (thread.malloc_frames_end != 0) {
                    in_malloc.push_back(thread.tid);
                }
            }
            // A process with a single thread takes no locks.
            const bool may_be_locked = process.threads().size() == 1
                                           ? !in_malloc.empty()
                                           : has_locked_arena(process.target().memory(), places);
            if (!may_be_locked) {
                return threads;
            }
            log_debug("{} of {} threads are in malloc", in_malloc.size(), threads.size());
            if (in_malloc.empty() || patience.is_over()) {
                return std::vector<ThreadView>();
            }
            if (auto ran = process.run_on(in_malloc, run_ms); !ran) {
                return std::move(ran).error();
            }
        }
    }

    Tid pid_;
    RemoteMemory memory_;
    ModuleMap modules_;
    const Module* libc_ = nullptr;
};

} // namespace

Result<HeapSnapshot> take_heap_snapshot(Tid pid) {
    if (std::strcmp(arch::kName, "x86_64") != 0) {
        return Error(
            fmt::format("the heap cannot be read: memleax does so on x86_64 only, and this "
                        "is {}",
                        arch::kName));
    }
    auto memory = RemoteMemory::open(pid);
    if (!memory) {
        return explain_seize_failure(pid, memory.error().errnum());
    }
    Attempts attempts(pid, *std::move(memory));
    if (auto prepared = attempts.prepare(); !prepared) {
        return std::move(prepared).error();
    }
    return attempts.run();
}

} // namespace memleax
