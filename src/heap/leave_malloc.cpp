// SPDX-License-Identifier: GPL-3.0-or-later
#include "leave_malloc.hpp"

#include <algorithm>
#include <utility>

#include "glibc_walk.hpp"
#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"

namespace memleax {

namespace {

using Threads = std::vector<ThreadView>;

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
    constexpr int kTurnOfAny = 4; // each fourth turn is everybody's, lest somebody be overlooked
    const auto look = [&] {
        return look_at_threads(process.target(), process.threads(), modules, places.entry_points);
    };
    int run_us = kShortestRunUs;
    int turn = 1;
    Threads threads = look();
    for (const Patience patience(kMostMs);; ++turn) {
        const bool is_single = process.threads().size() == 1 && !places.entry_points.empty();
        const auto locked = locked_arenas(process.target().memory(), places);
        const std::vector<Tid> in_malloc = next_to_run(threads, {}, true);
        if (is_single ? in_malloc.empty() : locked && locked->empty()) {
            log_debug("no thread holds malloc's locks, after {} turns", turn - 1);
            return threads;
        }
        if (in_malloc.empty() || patience.is_over()) {
            log_debug("{} threads are in malloc after {} turns", in_malloc.size(), turn - 1);
            return Threads();
        }
        const std::vector<Tid> chosen = is_single || !locked
                                            ? in_malloc
                                            : next_to_run(threads, *locked, turn % kTurnOfAny == 0);
        if (auto ran = process.run_on(chosen, run_us); !ran) {
            return std::move(ran).error();
        }
        Threads now = look();
        run_us =
            has_moved(chosen, threads, now) ? kShortestRunUs : std::min(2 * run_us, kLongestRunUs);
        threads = std::move(now);
    }
}

} // namespace memleax
