// SPDX-License-Identifier: GPL-3.0-or-later
/// What a thread has done so far, as the files of its folder /proc/PID/task/TID tell.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "memleax/base/types.hpp"
#include "memleax/proc/executed_ticks.hpp"

namespace memleax {

/// With a slash behind it.
std::string thread_folder(Tid pid, Tid tid);

std::optional<ExecutedTicks> try_read_executed_ticks(const std::string& folder);

/// Time on a CPU, by schedstat (Documentation/scheduler/sched-stats.rst), or by ticks where the
/// kernel keeps none.
std::int64_t executed_ns(const std::string& folder);

/// How often it gave up the CPU of its own accord.
std::uint64_t times_slept(const std::string& folder);

/// Calls like write(2) that have ended (io in proc(5)); nothing where the kernel does not count
/// them.
std::optional<std::uint64_t> try_read_write_calls(const std::string& folder);

} // namespace memleax
