// SPDX-License-Identifier: GPL-3.0-or-later
// What a stop does to a system call, by its arguments.
#include "memleax/proc/system_call_kind.hpp"

#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/io_uring.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

namespace memleax {
namespace {

constexpr std::uint64_t kMinusOne = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint64_t kSomewhere = 0x7fff0000;

StopEffect effect(long call, SystemCallArguments arguments,
                  DescriptorKind kind = DescriptorKind::unknown,
                  std::optional<std::uint64_t> bytes = std::nullopt) {
    return effect_of_stop(
        call, arguments,
        {.kind_of = [kind](int /*fd*/) { return kind; },
         .bytes_of = [bytes](RemoteAddr /*array*/, std::uint64_t /*count*/) { return bytes; }});
}

TEST(EffectOfStop, IsNoneOnWhoWaitsForTimeOrForAnother) {
    for (const long call : {SYS_futex, SYS_nanosleep, SYS_clock_nanosleep, SYS_restart_syscall,
                            SYS_wait4, SYS_waitid, SYS_ppoll, SYS_pselect6, SYS_flock, SYS_fcntl,
                            SYS_accept, SYS_connect, SYS_mq_timedreceive, SYS_msgrcv}) {
        EXPECT_EQ(effect(call, {}), StopEffect::unnoticed) << call;
    }
}

TEST(EffectOfStop, OnAWriteDependsOnItsSizeAndWhereItGoes) {
    const auto write = [](std::uint64_t bytes, DescriptorKind kind) {
        return effect(SYS_write, {1, kSomewhere, bytes}, kind);
    };
    EXPECT_EQ(write(4096, DescriptorKind::pipe), StopEffect::unnoticed); // PIPE_BUF: all or nothing
    EXPECT_EQ(write(4097, DescriptorKind::pipe), StopEffect::cut_short);
    EXPECT_EQ(write(2, DescriptorKind::socket), StopEffect::cut_short);
    EXPECT_EQ(write(1, DescriptorKind::socket), StopEffect::unnoticed);
    EXPECT_EQ(write(100, DescriptorKind::character_device), StopEffect::cut_short);
    EXPECT_EQ(write(100, DescriptorKind::unknown), StopEffect::cut_short);
    EXPECT_EQ(write(8, DescriptorKind::other), StopEffect::unnoticed);
    EXPECT_EQ(write(100, DescriptorKind::regular_file), StopEffect::may_fail);
}

TEST(EffectOfStop, OnAWritevIsThatOfAllItsParts) {
    const auto writev = [](std::optional<std::uint64_t> bytes) {
        return effect(SYS_writev, {1, kSomewhere, 2}, DescriptorKind::pipe, bytes);
    };
    EXPECT_EQ(writev(4096), StopEffect::unnoticed);
    EXPECT_EQ(writev(4097), StopEffect::cut_short);
    EXPECT_EQ(writev(std::nullopt), StopEffect::cut_short);
}

TEST(EffectOfStop, OnAReceiptDependsOnWhetherItWaitsForAll) {
    EXPECT_EQ(effect(SYS_recvfrom, {3, kSomewhere, 100, 0}), StopEffect::unnoticed);
    EXPECT_EQ(effect(SYS_recvfrom, {3, kSomewhere, 100, MSG_WAITALL}), StopEffect::cut_short);
    EXPECT_EQ(effect(SYS_recvfrom, {3, kSomewhere, 1, MSG_WAITALL}), StopEffect::unnoticed);
    EXPECT_EQ(effect(SYS_recvmsg, {3, kSomewhere, 0}), StopEffect::unnoticed);
    EXPECT_EQ(effect(SYS_recvmsg, {3, kSomewhere, MSG_WAITALL}), StopEffect::cut_short);
    EXPECT_EQ(effect(SYS_recvmmsg, {3, kSomewhere, 8, 0}), StopEffect::cut_short);
    EXPECT_EQ(effect(SYS_recvmmsg, {3, kSomewhere, 1, 0}), StopEffect::unnoticed);
    EXPECT_EQ(effect(SYS_recvmmsg, {3, kSomewhere, 8, MSG_WAITFORONE}), StopEffect::unnoticed);
}

TEST(EffectOfStop, OnASpliceDependsOnWhereItGoes) {
    EXPECT_EQ(effect(SYS_splice, {3, 0, 4, 0, 100}, DescriptorKind::pipe), StopEffect::unnoticed);
    EXPECT_EQ(effect(SYS_splice, {3, 0, 4, 0, 100}, DescriptorKind::socket), StopEffect::cut_short);
    EXPECT_EQ(effect(SYS_sendfile, {3, 4, 0, 100}), StopEffect::cut_short);
}

TEST(EffectOfStop, OnWhatIsBegunAgainDependsOnItsLimit) {
    const std::uint64_t milliseconds = 1000;
    EXPECT_EQ(effect(SYS_epoll_pwait, {3, kSomewhere, 1, kMinusOne}), StopEffect::begun_again);
    EXPECT_EQ(effect(SYS_epoll_pwait, {3, kSomewhere, 1, milliseconds}), StopEffect::limit_anew);
    // With a mask of its own.
    EXPECT_EQ(effect(SYS_epoll_pwait, {3, kSomewhere, 1, kMinusOne, kSomewhere}),
              StopEffect::may_fail);
    EXPECT_EQ(effect(SYS_rt_sigtimedwait, {kSomewhere, 0, 0}), StopEffect::begun_again);
    EXPECT_EQ(effect(SYS_rt_sigtimedwait, {kSomewhere, 0, kSomewhere}), StopEffect::limit_anew);
    EXPECT_EQ(effect(SYS_semop, {}), StopEffect::begun_again);
    EXPECT_EQ(effect(SYS_semtimedop, {1, kSomewhere, 1, kSomewhere}), StopEffect::limit_anew);
    EXPECT_EQ(effect(SYS_io_getevents, {1, 1, 8, kSomewhere, 0}), StopEffect::begun_again);
    EXPECT_EQ(effect(SYS_io_getevents, {1, 2, 8, kSomewhere, 0}), StopEffect::cut_short);
    EXPECT_EQ(effect(SYS_io_uring_enter, {3, 0, 1, IORING_ENTER_GETEVENTS}),
              StopEffect::begun_again);
    EXPECT_EQ(effect(SYS_io_uring_enter, {3, 1, 1, IORING_ENTER_GETEVENTS}), StopEffect::may_fail);
    for (const long call : {SYS_epoll_pwait, SYS_semop, SYS_rt_sigtimedwait, SYS_io_getevents}) {
        EXPECT_TRUE(can_begin_again(call)) << call;
    }
}

TEST(EffectOfStop, OnAnUnknownCallIsFeared) {
    EXPECT_EQ(effect(SYS_ioctl, {}), StopEffect::may_fail);
    EXPECT_FALSE(can_begin_again(SYS_close)); // it has closed
    EXPECT_EQ(system_call_name(SYS_sendfile), "sendfile");
    EXPECT_EQ(system_call_name(100'000), "system call 100000");
}

TEST(KindOfDescriptor, IsWhatItRefersTo) {
    const Tid self(getpid());
    int pipe_ends[2];
    ASSERT_EQ(pipe(pipe_ends), 0);
    const int socket_fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const int event_fd = eventfd(0, 0);
    const int device = open("/dev/null", O_WRONLY);
    const int file = open("/proc/self/exe", O_RDONLY);
    EXPECT_EQ(kind_of_descriptor(self, pipe_ends[0]), DescriptorKind::pipe);
    EXPECT_EQ(kind_of_descriptor(self, socket_fd), DescriptorKind::socket);
    EXPECT_EQ(kind_of_descriptor(self, event_fd), DescriptorKind::other);
    EXPECT_EQ(kind_of_descriptor(self, device), DescriptorKind::character_device);
    EXPECT_EQ(kind_of_descriptor(self, file), DescriptorKind::regular_file);
    for (const int fd : {pipe_ends[0], pipe_ends[1], socket_fd, event_fd, device, file}) {
        close(fd);
    }
    EXPECT_EQ(kind_of_descriptor(self, file), DescriptorKind::unknown);
}

// proc_pid_syscall(5)
TEST(KernelStateOf, HasTheArgumentsOfTheCall) {
    const std::string stat = "7 (a) b) S 1 7 7 0 -1 4194304 0 0";
    const auto state =
        parse_kernel_state(stat, "1 0x1 0x5000 0x400000 0x0 0x8 0x9 0x7ffd10 0x401\n");
    ASSERT_TRUE(state);
    EXPECT_EQ(state->state, 'S');
    EXPECT_EQ(state->system_call, 1);
    EXPECT_EQ(state->arguments, (SystemCallArguments{1, 0x5000, 0x400000, 0, 8, 9}));
    EXPECT_EQ(state->sp, RemoteAddr(0x7ffd10));
    EXPECT_EQ(state->pc, CodeAddr(0x401));
    const auto outside = parse_kernel_state(stat, "-1 0x7ffd10 0x401\n");
    ASSERT_TRUE(outside);
    EXPECT_FALSE(outside->system_call);
    EXPECT_EQ(outside->pc, CodeAddr(0x401));
}

TEST(KernelStateOf, TellsAThreadOfTheKernels) {
    utsname kernel{};
    ASSERT_EQ(uname(&kernel), 0);
    const auto is_worker = [](unsigned long flags) {
        return parse_kernel_state(fmt::format("7 (iou-wrk) S 1 7 7 0 -1 {} 0", flags), std::nullopt)
            ->is_kernels_worker;
    };
    constexpr unsigned long kRandomize = 0x00400000; // of every thread (PF_RANDOMIZE)
    EXPECT_FALSE(is_worker(kRandomize));
    for (const unsigned long flag : {0x10UL, 0x4000UL}) {
        EXPECT_EQ(is_worker(kRandomize | flag), (worker_flags(kernel.release) & flag) != 0) << flag;
    }
}

// A thread of QEMU's is a virtual CPU, and no thread of the kernel's: PF_VCPU, PF_IO_WORKER,
// PF_USED_ASYNC and PF_USER_WORKER of include/linux/sched.h.
TEST(WorkerFlags, AreThoseOfTheKernelsRelease) {
    EXPECT_EQ(worker_flags("2.6.32-754.el6.x86_64"), 0U);
    EXPECT_EQ(worker_flags("4.18.0-553.el8_10.x86_64"), 0U);
    EXPECT_EQ(worker_flags("5.4.0-200-generic"), 0U);
    EXPECT_EQ(worker_flags("5.9.16"), 0U);
    EXPECT_EQ(worker_flags("5.10.0-33-amd64"), 0x10U);
    EXPECT_EQ(worker_flags("6.1"), 0x10U);
    EXPECT_EQ(worker_flags("6.3.13"), 0x10U);
    EXPECT_EQ(worker_flags("6.4-rc1"), 0x4010U);
    EXPECT_EQ(worker_flags("10.0.1"), 0x4010U);
    EXPECT_EQ(worker_flags(""), 0U);
}

} // namespace
} // namespace memleax
