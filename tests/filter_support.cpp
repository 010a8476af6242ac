// SPDX-License-Identifier: GPL-3.0-or-later
#include "filter_support.hpp"

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <linux/filter.h>
#include <linux/sched.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

namespace memleax::testing {

namespace {

constexpr std::uint32_t kNumberAt = offsetof(seccomp_data, nr);

/// The lower half; all our CPUs are little-endian.
constexpr std::uint32_t argument_at(std::size_t index) {
    return static_cast<std::uint32_t>(offsetof(seccomp_data, args) + index * sizeof(std::uint64_t));
}

sock_filter load(std::uint32_t at) {
    return BPF_STMT(BPF_LD | BPF_W | BPF_ABS, at);
}

sock_filter answer(std::uint32_t action) {
    return BPF_STMT(BPF_RET | BPF_K, action);
}

sock_filter skip_unless_equal(std::uint32_t value, std::uint8_t count) {
    return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, value, 0, count);
}

sock_filter skip_unless_set(std::uint32_t bits, std::uint8_t count) {
    return BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, bits, 0, count);
}

bool install(std::vector<sock_filter> filter) {
    const sock_fprog program{static_cast<unsigned short>(filter.size()), filter.data()};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

} // namespace

bool forbid_threads() {
    // The flags of clone3(2) are in memory, which no filter sees: without it clone(2) is called.
    return install({load(kNumberAt), skip_unless_equal(SYS_clone3, 1),
                    answer(SECCOMP_RET_ERRNO | ENOSYS), skip_unless_equal(SYS_clone, 3),
                    load(argument_at(0)), skip_unless_set(CLONE_THREAD, 1),
                    answer(SECCOMP_RET_ERRNO | EAGAIN), answer(SECCOMP_RET_ALLOW)});
}

bool forbid_kcmp() {
    return install({load(kNumberAt), skip_unless_equal(SYS_kcmp, 1),
                    answer(SECCOMP_RET_ERRNO | EPERM), answer(SECCOMP_RET_ALLOW)});
}

bool end_at_set_ptracer(std::optional<pid_t> allowed) {
    std::vector<sock_filter> filter{load(kNumberAt), skip_unless_equal(SYS_prctl, 5),
                                    load(argument_at(0)), skip_unless_equal(PR_SET_PTRACER, 3),
                                    load(argument_at(1))};
    filter.push_back(allowed ? skip_unless_equal(static_cast<std::uint32_t>(*allowed), 1)
                             : skip_unless_equal(0, 0));
    filter.push_back(answer(SECCOMP_RET_KILL_PROCESS));
    filter.push_back(answer(SECCOMP_RET_ALLOW));
    return install(std::move(filter));
}

} // namespace memleax::testing
