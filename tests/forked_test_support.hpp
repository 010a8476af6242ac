// SPDX-License-Identifier: GPL-3.0-or-later
/// A part of a test in a child of its own: what it limits is not limited in the test.
#pragma once

#include <csignal>
#include <exception>
#include <fstream>
#include <iostream>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

namespace memleax::testing {

/// True if nothing has failed there, and nothing was thrown.
template <typename Part> [[nodiscard]] bool in_child(const Part& part) {
    const pid_t pid = fork();
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test be ended
        int status = 0;
        try {
            part();
        } catch (const std::exception& thrown) {
            std::cerr << thrown.what() << std::endl;
            status = 1;
        }
        _exit(::testing::Test::HasFailure() ? 1 : status);
    }
    int status = -1;
    return waitpid(pid, &status, 0) == pid && status == 0;
}

/// This process can have so many bytes of addresses more than it has.
inline void limit_addresses(std::size_t bytes) {
    std::size_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    rlimit limit{};
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE)) + bytes;
    ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

} // namespace memleax::testing
