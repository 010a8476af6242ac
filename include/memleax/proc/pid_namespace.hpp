// SPDX-License-Identifier: GPL-3.0-or-later
/// Numbers of processes as others see them: pid_namespaces(7).
#pragma once

#include <string_view>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// From the text of /proc/PID/status: the process's numbers (NSpid), ours first, and one for each
/// namespace further inside. Empty if the kernel does not tell.
std::vector<int> parse_namespace_pids(std::string_view status);

/// The number that the process has for itself (getpid(2)); ours if that is not known.
int own_number_of(Tid pid);

/// The process that is number `inside` in the PID namespace that `member` is in: the container's
/// first process, or any other of it.
Result<Tid> find_in_pid_namespace(Tid member, int inside);

/// Is /proc that of our own PID namespace? It is not after `nsenter --pid` without `--mount`: all
/// that we read there would be about other processes than those we trace.
Result<void> check_proc_is_ours();

} // namespace memleax
