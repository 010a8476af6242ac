// SPDX-License-Identifier: GPL-3.0-or-later
/// What memleax was started with and changes for itself; a command that it starts gets the
/// original.
#pragma once

#include <csignal>

#include <sys/resource.h>

namespace memleax {

struct Inherited {
    sigset_t signal_mask{};
    rlimit open_files{};
    rlimit data{};
};

} // namespace memleax
