// SPDX-License-Identifier: GPL-3.0-or-later
#include "watched_heap.hpp"

#include <cstdint>
#include <utility>

#include <poll.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/patience.hpp"
#include "memleax/target/stop_all.hpp"
#include "memleax/target/thread_borrower.hpp"

namespace memleax {

void WatchedHeap::note_threads() {
    threads_.clear();
    for (const auto& [tid, thread] : target_.threads()) {
        if (thread.state == TracedThread::State::stopped) {
            threads_.push_back(tid);
        }
    }
}

Result<void> WatchedHeap::let_run(std::span<const Tid> threads, int us) {
    for (const Tid tid : threads) {
        if (const auto event = target_.take_deferred(tid)) {
            target_.handler()->on_stop(*event);
        }
    }
    usleep(static_cast<useconds_t>(us));
    auto stopped = stop_all_and_defer(target_);
    note_threads();
    return stopped ? Result<void>() : std::move(stopped).error();
}

void WatchedHeap::keep_copy(std::shared_ptr<ProcessCopy> copy) {
    memleax::keep_copy(target_, std::move(copy));
}

void WatchedCopy::end() {
    constexpr std::int64_t kMostMs = 5000;
    constexpr int kPauseMs = 5;
    if (!std::exchange(is_expected_, false)) {
        return;
    }
    if (const auto copy = std::exchange(copy_, nullptr)) {
        copy->kill();
        copy->await_death();
    }
    for (const Patience patience(kMostMs);; poll(nullptr, 0, kPauseMs)) {
        Result<void> ended;
        bool is_over = true;
        const auto asked = perform_(TargetState::as_it_is, [&](TargetInHand& hand) {
            // Else all would wait until one can be stopped, and the other processes as well.
            is_over = patience.is_over() || hand.target.borrower().has_thread_to_borrow();
            if (is_over) {
                ended = end_copy(hand.target);
            }
        });
        if (!asked) { // nobody watches it any more, so it has been ended
            return;
        }
        if (!ended) { // the next look, or whoever leaves, tries again
            log_debug("{}", ended.error().message());
        }
        if (is_over) {
            return;
        }
    }
}

} // namespace memleax
