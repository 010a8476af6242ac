// SPDX-License-Identifier: GPL-3.0-or-later
#include "leave_malloc.hpp"

#include <algorithm>
#include <bit>
#include <iterator>
#include <thread>
#include <utility>

#include "glibc_walk.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"

namespace memleax {

namespace {

using Threads = std::vector<ThreadView>;

bool contains(const std::vector<Tid>& tids, Tid tid) {
    return std::find(tids.begin(), tids.end(), tid) != tids.end();
}

const ThreadView* find_thread(const Threads& threads, Tid tid) {
    const auto found = std::find_if(threads.begin(), threads.end(),
                                    [tid](const ThreadView& each) { return each.tid == tid; });
    return found == threads.end() ? nullptr : &*found;
}

/// Whoever has locked an arena will unlock it, and so has its address.
bool may_have(const ThreadView& thread, std::uint64_t arena) {
    const auto has = [arena](const std::vector<std::uint64_t>& words) {
        return std::find(words.begin(), words.end(), arena) != words.end();
    };
    return thread.malloc_frames_end != 0 && (has(thread.registers) || has(thread.malloc_words));
}

/// Whose turn it is to run on: those in malloc that have the address of a locked arena; a thread
/// that need not run would come to lock one. All in malloc if that is not everybody who matters:
/// `any`, or as nobody has the address of one of them, which code may have in itself.
std::vector<Tid> next_to_run(const Threads& threads, const std::vector<std::uint64_t>& locked,
                             bool any) {
    any = any || std::any_of(locked.begin(), locked.end(), [&threads](std::uint64_t arena) {
              return std::none_of(threads.begin(), threads.end(), [arena](const ThreadView& each) {
                  return may_have(each, arena);
              });
          });
    std::vector<Tid> result;
    for (const ThreadView& thread : threads) {
        const bool is_needed =
            any ? thread.malloc_frames_end != 0
                : std::any_of(locked.begin(), locked.end(),
                              [&thread](std::uint64_t arena) { return may_have(thread, arena); });
        if (is_needed) {
            result.push_back(thread.tid);
        }
    }
    return result;
}

/// Now and then everybody runs, lest somebody be overlooked: ever more rarely, as those who had
/// come out are in malloc again after it.
bool is_turn_of_all(unsigned turn) {
    constexpr unsigned kFirst = 32;
    return turn >= kFirst && std::has_single_bit(turn);
}

/// More than there are CPUs would hardly run, and each would have to be stopped and looked at
/// again. These are taken in turns: those behind `last` in the ring first.
std::vector<Tid> as_many_as_can_run(std::vector<Tid> tids, Tid last) {
    static const std::size_t kCpus = std::max(1U, std::thread::hardware_concurrency());
    std::sort(tids.begin(), tids.end());
    std::rotate(tids.begin(), std::upper_bound(tids.begin(), tids.end(), last), tids.end());
    tids.resize(std::min(tids.size(), kCpus));
    return tids;
}

/// Has one of these got a CPU since? One that waits for a lock has not moved.
bool has_moved(const std::vector<Tid>& tids, const Threads& before, const Threads& now) {
    return std::any_of(tids.begin(), tids.end(), [&](Tid tid) {
        const ThreadView* was = find_thread(before, tid);
        const ThreadView* is = find_thread(now, tid);
        return was == nullptr || is == nullptr || was->registers != is->registers;
    });
}

} // namespace

Result<std::vector<ThreadView>> leave_malloc(HeldProcess& process, const GlibcPlaces& places,
                                             const ModuleMap& modules) {
    constexpr std::int64_t kMostMs = 1000;
    // A call of malloc takes a microsecond, and who runs on comes into the next one. Where the CPUs
    // are busy it takes a while to get one.
    constexpr int kShortestRunUs = 100;
    constexpr int kLongestRunUs = 32'000;
    const auto look = [&](std::span<const Tid> at) {
        return look_at_threads(process.target(), at, modules, places.entry_points);
    };
    // At those that ran, and at newborns; the others are as they were.
    const auto look_again = [&](Threads before, const std::vector<Tid>& ran) {
        std::vector<Tid> others = process.threads();
        std::erase_if(before, [&](const ThreadView& thread) {
            return contains(ran, thread.tid) || !contains(others, thread.tid);
        });
        std::erase_if(others, [&](Tid tid) { return find_thread(before, tid) != nullptr; });
        Threads seen = look(others);
        std::move(seen.begin(), seen.end(), std::back_inserter(before));
        return before;
    };
    MemoryReader& memory = process.target().memory();
    int run_us = kShortestRunUs;
    unsigned turn = 1;
    Tid last;
    Threads threads = look(process.threads());
    for (const Patience patience(kMostMs);; ++turn) {
        const bool is_single = process.threads().size() == 1 && !places.entry_points.empty();
        const auto locked = locked_arenas(memory, places);
        const std::vector<Tid> in_malloc = next_to_run(threads, {}, true);
        if (is_single ? in_malloc.empty() : locked && locked->empty()) {
            log_debug("no thread holds malloc's locks, after {} turns", turn - 1);
            return threads;
        }
        if (in_malloc.empty() || patience.is_over()) {
            log_debug("{} threads are in malloc after {} turns", in_malloc.size(), turn - 1);
            return Threads();
        }
        std::vector<Tid> chosen = in_malloc;
        if (!is_single && locked && !is_turn_of_all(turn)) {
            chosen = as_many_as_can_run(next_to_run(threads, *locked, false), last);
            last = chosen.back();
        }
        if (auto ran = process.run_on(chosen, run_us); !ran) {
            return std::move(ran).error();
        }
        Threads now = look_again(threads, chosen);
        run_us = has_moved(chosen, threads, now) ? std::max(run_us / 2, kShortestRunUs)
                                                 : std::min(2 * run_us, kLongestRunUs);
        threads = std::move(now);
    }
}

} // namespace memleax
