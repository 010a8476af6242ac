// SPDX-License-Identifier: GPL-3.0-or-later
/// A lock for which nobody waits in vain when its holder has crashed.
#pragma once

#include <atomic>
#include <cstdint>

namespace memleax {

/// As std::mutex, of this process only. Not std::timed_mutex: gcc 12's ThreadSanitizer does not
/// know pthread_mutex_clocklock, and reports everything that is done under it.
class AbandonableMutex {
  public:
    AbandonableMutex() = default;
    AbandonableMutex(const AbandonableMutex&) = delete;
    AbandonableMutex& operator=(const AbandonableMutex&) = delete;

    /// Gives way to those who wait in lock_unless(): a thread that locks in a loop would have the
    /// lock again before who is woken runs, and hold it up until the loop ends.
    void lock();
    void unlock();
    /// Locks, or gives up soon after `abandoned` has become true while another holds the lock. What
    /// sets it wakes nobody, as a signal handler may be all that can still set it.
    [[nodiscard]] bool lock_unless(const std::atomic<bool>& abandoned);

  private:
    static constexpr std::uint32_t kFree = 0;
    static constexpr std::uint32_t kHeld = 1;
    static constexpr std::uint32_t kAwaited = 2; ///< held, and somebody may sleep until it is free

    [[nodiscard]] bool try_lock();
    [[nodiscard]] bool wait_unless(const std::atomic<bool>& abandoned);

    std::atomic<std::uint32_t> state_{kFree};
    std::atomic<std::uint32_t> preferred_{0}; ///< how many threads wait in lock_unless()
};

} // namespace memleax
