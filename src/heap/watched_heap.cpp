// SPDX-License-Identifier: GPL-3.0-or-later
#include "watched_heap.hpp"

#include <unistd.h>

#include "memleax/target/stop_all.hpp"

namespace memleax {

void WatchedHeap::note_threads() {
    threads_.clear();
    for (const auto& [tid, thread] : target_.threads()) {
        if (thread.state == TracedThread::State::stopped) {
            threads_.push_back(tid);
        }
    }
}

Result<void> WatchedHeap::run_on(std::span<const Tid> threads, int us) {
    for (const Tid tid : threads) {
        if (const auto event = target_.take_deferred(tid)) {
            target_.handler()->on_stop(*event);
        }
    }
    usleep(static_cast<useconds_t>(us));
    auto stopped = stop_all_and_defer(target_);
    note_threads();
    return stopped;
}

} // namespace memleax
