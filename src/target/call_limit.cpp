// SPDX-License-Identifier: GPL-3.0-or-later
#include "call_limit.hpp"

#include <cerrno>
#include <ctime>

#include <linux/futex.h>
#include <sys/syscall.h>

#include "memleax/base/clock.hpp"

namespace memleax {

namespace {

constexpr std::int64_t kNsPerMs = 1'000'000;
/// Longer ones are waited for in vain by nobody.
constexpr std::int64_t kMostSeconds = 1'000'000'000;

// They may end early with EINTR: what they wait for may have come.
std::optional<CallLimit> of_milliseconds(std::uint64_t argument) {
    const auto ms = static_cast<int>(argument);
    return ms >= 0 ? std::optional(CallLimit{ms * kNsPerMs, EINTR}) : std::nullopt;
}

std::optional<CallLimit> of_timespec(std::uint64_t argument, int errnum, RemoteMemory& memory) {
    const auto time =
        argument != 0 ? memory.try_read_object<timespec>(RemoteAddr(argument)) : std::nullopt;
    if (!time || time->tv_sec < 0 || time->tv_sec > kMostSeconds || time->tv_nsec < 0 ||
        time->tv_nsec >= kNsPerSecond) {
        return std::nullopt;
    }
    return CallLimit{time->tv_sec * kNsPerSecond + time->tv_nsec, errnum};
}

} // namespace

std::optional<CallLimit> limit_of(long call, const arch::Registers& regs, RemoteMemory& memory) {
    const auto argument = [&regs](unsigned n) { return arch::system_call_argument(regs, n); };
    switch (call) {
#ifdef SYS_epoll_wait // the generic system call table (arm64) has only the p-forms
    case SYS_epoll_wait:
        return of_milliseconds(argument(3));
    case SYS_poll:
        return of_milliseconds(argument(2));
#endif
    case SYS_epoll_pwait:
        return of_milliseconds(argument(3));
#ifdef SYS_epoll_pwait2
    case SYS_epoll_pwait2:
        return of_timespec(argument(3), EINTR, memory);
#endif
    case SYS_nanosleep:
        return of_timespec(argument(0), 0, memory);
    case SYS_clock_nanosleep:
        return (argument(1) & TIMER_ABSTIME) == 0 ? of_timespec(argument(2), 0, memory)
                                                  : std::nullopt;
    case SYS_futex:
        return (argument(1) & FUTEX_CMD_MASK) == FUTEX_WAIT
                   ? of_timespec(argument(3), ETIMEDOUT, memory)
                   : std::nullopt;
    default:
        return std::nullopt;
    }
}

} // namespace memleax
