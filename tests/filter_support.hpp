// SPDX-License-Identifier: GPL-3.0-or-later
/// Filters for system calls (seccomp(2)), of the calling thread and what it makes from then on.
#pragma once

#include <optional>

#include <sys/types.h>

namespace memleax::testing {

/// No thread can be made any more (EAGAIN), as where a control group has no room for one
/// (pids.max). Processes can. False: this kernel has no filters.
[[nodiscard]] bool forbid_threads();

/// Nobody's memory can be compared any more (EPERM), as in containers. False as above.
[[nodiscard]] bool forbid_kcmp();

/// Whoever lets this process trace it (PR_SET_PTRACER) ends, by SIGSYS; nothing: any process. False
/// as above.
[[nodiscard]] bool end_at_set_ptracer(std::optional<pid_t> allowed);

} // namespace memleax::testing
