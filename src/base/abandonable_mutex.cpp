// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/abandonable_mutex.hpp"

#include <climits>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace memleax {

namespace {

static_assert(sizeof(std::atomic<std::uint32_t>) ==
              sizeof(std::uint32_t)); // it is the futex's word

const std::atomic<bool> kNever{false};

/// For 20 ms at most: what sets `abandoned` wakes nobody.
void sleep_while(std::atomic<std::uint32_t>& word, std::uint32_t value) {
    constexpr timespec kLookAround{0, 20'000'000};
    syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, value, &kLookAround, nullptr, 0);
}

void wake(std::atomic<std::uint32_t>& word, int threads) {
    syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, threads, nullptr, nullptr, 0);
}

} // namespace

bool AbandonableMutex::try_lock() {
    std::uint32_t state = kFree;
    return state_.compare_exchange_strong(state, kHeld, std::memory_order_acquire);
}

bool AbandonableMutex::wait_unless(const std::atomic<bool>& abandoned) {
    // Whoever has slept does not know whether others still do: it holds the lock as awaited.
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
        if (abandoned.load()) {
            return false; // the holder wakes somebody in vain, if ever it comes to that
        }
        sleep_while(state_, kAwaited);
    }
    return true;
}

void AbandonableMutex::lock() {
    while (const std::uint32_t waiting = preferred_.load()) {
        sleep_while(preferred_, waiting);
    }
    if (!try_lock()) {
        (void)wait_unless(kNever);
    }
}

bool AbandonableMutex::lock_unless(const std::atomic<bool>& abandoned) {
    if (try_lock()) {
        return true;
    }
    preferred_.fetch_add(1);
    const bool locked = wait_unless(abandoned);
    if (preferred_.fetch_sub(1) == 1) {
        wake(preferred_, INT_MAX);
    }
    return locked;
}

void AbandonableMutex::unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) {
        wake(state_, 1);
    }
}

} // namespace memleax
