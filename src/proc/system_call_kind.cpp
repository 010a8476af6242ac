// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/proc/system_call_kind.hpp"

#include <algorithm>
#include <array>
#include <climits>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>

namespace memleax {

namespace {

/// One call as it stands.
struct Call {
    const SystemCallArguments& arguments;
    const CallDetails& details;

    [[nodiscard]] std::uint64_t operator[](std::size_t n) const { return arguments[n]; }
    [[nodiscard]] DescriptorKind kind_of(std::size_t n) const {
        return details.kind_of(static_cast<int>(arguments[n]));
    }
};

using Effect = StopEffect (*)(const Call& call);

StopEffect unnoticed(const Call& /*call*/) {
    return StopEffect::unnoticed;
}
StopEffect begun_again(const Call& /*call*/) {
    return StopEffect::begun_again;
}
StopEffect cut_short(const Call& /*call*/) {
    return StopEffect::cut_short;
}

// It gives what is there, and sleeps only while nothing is. A terminal, though, may be asked to
// wait for several bytes (VMIN in termios(3)); and what sleeps in a regular file waits for a server
// in user space (FUSE), which is told of the stop, and may give up.
StopEffect read_call(const Call& call) {
    const DescriptorKind kind = call.kind_of(0);
    return kind == DescriptorKind::regular_file || kind == DescriptorKind::character_device
               ? StopEffect::may_fail
               : StopEffect::unnoticed;
}

// A pipe takes PIPE_BUF bytes at once or not at all (pipe(7)), so does an eventfd its 8.
StopEffect write_of(const Call& call, std::optional<std::uint64_t> bytes) {
    if (bytes && *bytes <= 1) {
        return StopEffect::unnoticed;
    }
    switch (call.kind_of(0)) {
    case DescriptorKind::regular_file: // FUSE, as above
        return StopEffect::may_fail;
    case DescriptorKind::pipe:
        return bytes && *bytes <= PIPE_BUF ? StopEffect::unnoticed : StopEffect::cut_short;
    case DescriptorKind::other:
        return StopEffect::unnoticed;
    default:
        return StopEffect::cut_short;
    }
}
StopEffect write_call(const Call& call) {
    return write_of(call, call[2]);
}
StopEffect writev_call(const Call& call) {
    return write_of(call, call.details.bytes_of(RemoteAddr(call[1]), call[2]));
}
StopEffect sendto_call(const Call& call) {
    return call[2] <= 1 ? StopEffect::unnoticed : StopEffect::cut_short;
}

// With MSG_WAITALL a part may have come already. Else they sleep while nothing is there.
StopEffect recvfrom_call(const Call& call) {
    return (call[3] & MSG_WAITALL) != 0 && call[2] > 1 ? StopEffect::cut_short
                                                       : StopEffect::unnoticed;
}
StopEffect recvmsg_call(const Call& call) {
    return (call[2] & MSG_WAITALL) != 0 ? StopEffect::cut_short : StopEffect::unnoticed;
}
StopEffect recvmmsg_call(const Call& call) {
    const bool waits_for_one = call[2] <= 1 || (call[3] & MSG_WAITFORONE) != 0;
    return (call[3] & MSG_WAITALL) != 0 || !waits_for_one ? StopEffect::cut_short
                                                          : StopEffect::unnoticed;
}

// Into a pipe they move what there is room for, and sleep while there is none (fs/splice.c); so do
// tee and vmsplice. A socket takes part by part.
StopEffect splice_call(const Call& call) {
    return call.kind_of(2) == DescriptorKind::pipe ? StopEffect::unnoticed : StopEffect::cut_short;
}

// Up to 256 bytes come at once (getrandom(2)).
StopEffect getrandom_call(const Call& call) {
    constexpr std::uint64_t kAtOnce = 256;
    return call[1] <= kAtOnce ? StopEffect::unnoticed : StopEffect::cut_short;
}

StopEffect limited(bool has_limit) {
    return has_limit ? StopEffect::limit_anew : StopEffect::begun_again;
}
// A mask of its own is in force within the call only, and InterruptedCalls::begin_again() leaves
// such calls alone.
StopEffect limited(bool has_limit, bool has_mask) {
    return has_mask ? StopEffect::may_fail : limited(has_limit);
}
[[maybe_unused]] StopEffect epoll_wait_call(const Call& call) {
    return limited(static_cast<int>(call[3]) >= 0);
}
StopEffect epoll_pwait_call(const Call& call) {
    return limited(static_cast<int>(call[3]) >= 0, call[4] != 0);
}
StopEffect epoll_pwait2_call(const Call& call) {
    return limited(call[3] != 0, call[4] != 0);
}
StopEffect sigtimedwait_call(const Call& call) {
    return limited(call[2] != 0);
}
StopEffect semtimedop_call(const Call& call) {
    return limited(call[3] != 0);
}
// Some of the events that it waits for may have come.
StopEffect io_getevents_call(const Call& call) {
    return static_cast<long>(call[1]) > 1 ? StopEffect::cut_short : limited(call[4] != 0);
}
StopEffect io_pgetevents_call(const Call& call) {
    return static_cast<long>(call[1]) > 1 ? StopEffect::cut_short
                                          : limited(call[4] != 0, call[5] != 0);
}
// What it has submitted is its result, and hides that it has not waited.
StopEffect io_uring_enter_call(const Call& call) {
    const bool submits = static_cast<unsigned>(call[1]) != 0;
    const bool has_mask = call[4] != 0; // or, with IORING_ENTER_EXT_ARG, a limit
    return submits || has_mask ? StopEffect::may_fail : StopEffect::begun_again;
}

struct Entry {
    long number;
    std::string_view name;
    Effect effect;
    /// May be made anew after an EINTR of ours. Those that the kernel begins again can get one too:
    /// on a socket with a time limit (sock_intr_errno in include/net/sock.h).
    bool can_begin_again = false;
};

constexpr bool kAgain = true;

constexpr Entry kEntries[] = {
    // Wait for time, or for somebody else.
    {SYS_futex, "futex", unnoticed},
#ifdef SYS_futex_waitv
    {SYS_futex_waitv, "futex_waitv", unnoticed},
#endif
    {SYS_nanosleep, "nanosleep", unnoticed},
    {SYS_clock_nanosleep, "clock_nanosleep", unnoticed},
    {SYS_restart_syscall, "restart_syscall", unnoticed}, // what such a sleep becomes after a stop
    {SYS_rt_sigsuspend, "sigsuspend", unnoticed},
    {SYS_wait4, "wait4", unnoticed},
    {SYS_waitid, "waitid", unnoticed},
    {SYS_flock, "flock", unnoticed},
    {SYS_fcntl, "fcntl", unnoticed}, // F_SETLKW and F_OFD_SETLKW; others do not sleep
    {SYS_ppoll, "ppoll", unnoticed},
    {SYS_pselect6, "pselect", unnoticed},
#ifdef SYS_poll // the generic system call table (arm64) has only the p-forms
    {SYS_poll, "poll", unnoticed},
    {SYS_select, "select", unnoticed},
    {SYS_pause, "pause", unnoticed},
    {SYS_open, "open", unnoticed},
    {SYS_epoll_wait, "epoll_wait", epoll_wait_call, kAgain},
#endif
    {SYS_openat, "openat", unnoticed}, // of a FIFO
#ifdef SYS_openat2
    {SYS_openat2, "openat2", unnoticed},
#endif
    {SYS_epoll_pwait, "epoll_pwait", epoll_pwait_call, kAgain},
#ifdef SYS_epoll_pwait2
    {SYS_epoll_pwait2, "epoll_pwait2", epoll_pwait2_call, kAgain},
#endif
    {SYS_rt_sigtimedwait, "sigtimedwait", sigtimedwait_call, kAgain},

    // System V's and POSIX's queues and semaphores: whole messages, all operations or none.
    {SYS_semop, "semop", begun_again, kAgain},
    {SYS_semtimedop, "semtimedop", semtimedop_call, kAgain},
    {SYS_msgrcv, "msgrcv", unnoticed, kAgain},
    {SYS_msgsnd, "msgsnd", unnoticed, kAgain},
    {SYS_mq_timedreceive, "mq_receive", unnoticed},
    {SYS_mq_timedsend, "mq_send", unnoticed},

    // Transfers.
    {SYS_read, "read", read_call, kAgain},
    {SYS_readv, "readv", read_call, kAgain},
    {SYS_pread64, "pread", read_call},
    {SYS_preadv, "preadv", read_call},
    {SYS_preadv2, "preadv2", read_call},
    {SYS_write, "write", write_call, kAgain},
    {SYS_writev, "writev", writev_call, kAgain},
    {SYS_pwrite64, "pwrite", write_call},
    {SYS_pwritev, "pwritev", writev_call},
    {SYS_pwritev2, "pwritev2", writev_call},
    {SYS_accept, "accept", unnoticed, kAgain},
    {SYS_accept4, "accept4", unnoticed, kAgain},
    {SYS_connect, "connect", unnoticed, kAgain},
    {SYS_recvfrom, "recvfrom", recvfrom_call, kAgain},
    {SYS_recvmsg, "recvmsg", recvmsg_call, kAgain},
    {SYS_recvmmsg, "recvmmsg", recvmmsg_call, kAgain},
    {SYS_sendto, "sendto", sendto_call, kAgain},
    {SYS_sendmsg, "sendmsg", cut_short, kAgain},
    {SYS_sendmmsg, "sendmmsg", cut_short, kAgain},
    {SYS_sendfile, "sendfile", cut_short},
    {SYS_splice, "splice", splice_call},
    {SYS_tee, "tee", unnoticed},
    {SYS_vmsplice, "vmsplice", unnoticed},
    {SYS_copy_file_range, "copy_file_range", cut_short},
    {SYS_getrandom, "getrandom", getrandom_call},
    {SYS_io_getevents, "io_getevents", io_getevents_call, kAgain},
#ifdef SYS_io_pgetevents
    {SYS_io_pgetevents, "io_pgetevents", io_pgetevents_call, kAgain},
#endif
    {SYS_io_uring_enter, "io_uring_enter", io_uring_enter_call, kAgain},
};

const Entry* find_entry(long system_call) {
    const auto* const found =
        std::find_if(std::begin(kEntries), std::end(kEntries),
                     [system_call](const Entry& entry) { return entry.number == system_call; });
    return found != std::end(kEntries) ? found : nullptr;
}

} // namespace

StopEffect effect_of_stop(long system_call, const SystemCallArguments& arguments,
                          const CallDetails& details) {
    const Entry* entry = find_entry(system_call);
    return entry != nullptr ? entry->effect({arguments, details}) : StopEffect::may_fail;
}

bool can_begin_again(long system_call) {
    const Entry* entry = find_entry(system_call);
    return entry != nullptr && entry->can_begin_again;
}

bool may_be_allocators(long system_call) {
    constexpr std::array kCalls{
        SYS_futex,  SYS_nanosleep, SYS_clock_nanosleep, SYS_mmap,     SYS_munmap,
        SYS_mremap, SYS_brk,       SYS_madvise,         SYS_mprotect, SYS_sched_yield};
    return std::find(kCalls.begin(), kCalls.end(), system_call) != kCalls.end();
}

std::string system_call_name(long system_call) {
    const Entry* entry = find_entry(system_call);
    return entry != nullptr ? std::string(entry->name) : fmt::format("system call {}", system_call);
}

DescriptorKind kind_of_descriptor(Tid tid, int fd) {
    const std::string path = fmt::format("/proc/{}/fd/{}", tid.value(), fd);
    struct statx info {};
    // What the kernel knows will do: a server may be long in answering.
    if (statx(AT_FDCWD, path.c_str(), AT_STATX_DONT_SYNC, STATX_TYPE, &info) != 0) {
        return DescriptorKind::unknown;
    }
    switch (info.stx_mode & S_IFMT) {
    case S_IFIFO:
        return DescriptorKind::pipe;
    case S_IFSOCK:
        return DescriptorKind::socket;
    case S_IFCHR:
        return DescriptorKind::character_device;
    case 0:
        return DescriptorKind::other;
    default:
        return DescriptorKind::regular_file;
    }
}

} // namespace memleax
