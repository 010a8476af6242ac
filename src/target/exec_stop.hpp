// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <csignal>

#include <sys/ptrace.h>

#include "memleax/base/types.hpp"

namespace memleax {

/// Is this stop, waited for or not, that of a new program (ptrace(2), PTRACE_EVENT_EXEC)? When
/// another thread executes one, the first one goes without a word, and its id is the other's.
inline bool is_in_exec_stop(Tid tid) {
    siginfo_t info{};
    return ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0 &&
           info.si_code == (SIGTRAP | (PTRACE_EVENT_EXEC << 8));
}

} // namespace memleax
