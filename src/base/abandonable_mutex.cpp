// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/abandonable_mutex.hpp"

#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace memleax {

static_assert(sizeof(std::atomic<std::uint32_t>) ==
              sizeof(std::uint32_t)); // it is the futex's word

const std::atomic<bool> AbandonableMutex::kNever{false};

bool AbandonableMutex::lock_unless(const std::atomic<bool>& abandoned) {
    std::uint32_t state = kFree;
    if (state_.compare_exchange_strong(state, kHeld, std::memory_order_acquire)) {
        return true;
    }
    // Whoever has slept does not know whether others still do: it holds the lock as awaited.
    while (state_.exchange(kAwaited, std::memory_order_acquire) != kFree) {
        if (abandoned.load()) {
            return false; // the holder wakes somebody in vain, if ever it comes to that
        }
        constexpr timespec kLookAround{0, 20'000'000};
        syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, kAwaited, &kLookAround, nullptr, 0);
    }
    return true;
}

void AbandonableMutex::unlock() {
    if (state_.exchange(kFree, std::memory_order_release) == kAwaited) {
        syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }
}

} // namespace memleax
