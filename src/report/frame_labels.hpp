// SPDX-License-Identifier: GPL-3.0-or-later
/// What stands for a frame where a tool has room for a name only. In brackets: not a function's.
#pragma once

#include <cstdint>
#include <string>

#include "memleax/report/report.hpp"

namespace memleax {

/// The function; where that is unknown "[libfoo.so]", and outside of all modules "[unknown]". One
/// line of UTF-8.
std::string function_label(const SourceFrame& frame);

/// What takes the root's place above a stack whose outer frames are missing, so that it does not
/// look as if it began there: "[backtrace limit]"; "" if the stack is whole.
std::string missing_frames_label(const Backtrace& frames, StackEnd end);

/// What stands above the stacks of a kind of memory: "[mmap]"; "" for the heap.
std::string kind_label(const CallStackReport& stack);

/// What stands above a process's stacks, "nginx-4711"; "" in a report that tells none apart.
/// `index` is that in Report::processes.
std::string process_label(const Report& report, std::uint32_t index);

} // namespace memleax
