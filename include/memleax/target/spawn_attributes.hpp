// SPDX-License-Identifier: GPL-3.0-or-later
/// What memleax was started with and changes for itself; a command that it starts gets the
/// original.
#pragma once

#include <array>
#include <csignal>
#include <string>
#include <vector>

#include <sys/resource.h>

namespace memleax {

/// Those that memleax ignores, whatever it was started with.
inline constexpr std::array kIgnoredSignals{SIGPIPE, SIGTTOU, SIGXFSZ};

struct SpawnAttributes {
    sigset_t ignored_signals{}; ///< of kIgnoredSignals and SIGCHLD
    sigset_t signal_mask{};
    rlimit open_files{};
    rlimit data{};
    std::vector<std::string> environment; ///< "NAME=VALUE"
};

/// As execve(2) wants them; the pointers are good as long as the strings are.
inline std::vector<char*> null_terminated(const std::vector<std::string>& strings) {
    std::vector<char*> pointers;
    pointers.reserve(strings.size() + 1);
    for (const std::string& string : strings) {
        pointers.push_back(const_cast<char*>(string.c_str()));
    }
    pointers.push_back(nullptr);
    return pointers;
}

} // namespace memleax
