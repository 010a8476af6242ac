// SPDX-License-Identifier: GPL-3.0-or-later
/// Pointers that a program has given to the kernel and may keep nowhere else.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// epoll_event.data of each descriptor that an epoll instance watches, by the text of its
/// /proc/PID/fdinfo/FD (proc(5)).
std::vector<std::uint64_t> parse_epoll_data(std::string_view fdinfo);
/// sigev_value of each POSIX timer, by the text of /proc/PID/timers (proc(5)).
std::vector<std::uint64_t> parse_timer_values(std::string_view timers);

/// Those of a process. Without what cannot be read.
std::vector<std::uint64_t> read_kernel_pointers(Tid pid);

} // namespace memleax
