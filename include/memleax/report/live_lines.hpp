// SPDX-License-Identifier: GPL-3.0-or-later
/// The lines that are printed while a session runs; each ends with a newline.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/events/allocation_event.hpp"
#include "memleax/events/source_frame.hpp"
#include "memleax/report/report.hpp"
#include "memleax/track/mapping_log.hpp"

namespace memleax {

std::string expired_first(std::uint64_t id, std::uint64_t size, const Backtrace& frames,
                          StackEnd end, NameStyle style = NameStyle::folded);
std::string expired_again(std::uint64_t id, std::uint64_t size, std::uint64_t times);
std::string freed_after_expiry(std::uint64_t id, double seconds);
std::string too_many_expired_free(std::uint64_t id);
/// "Error[1]: ..." with all of its backtraces, or, when it is not its first time, the line alone.
std::string memory_error(const ErrorReport& error, NameStyle style = NameStyle::folded);
std::string block_limit_reached(std::uint64_t id, std::uint64_t blocks);
std::string stack_limit_reached(std::uint64_t stacks);
/// What these two say, for another place: one line without its newline.
std::string block_limit_text(std::uint64_t id, std::uint64_t blocks);
std::string stack_limit_text(std::uint64_t stacks);

/// A call that has mapped or unmapped memory, `seconds` after the begin, with its stack:
/// "+1.5 s, thread 4711: mmap maps 0x7f0000000000-0x7f0000002000, 8192 bytes (mmap)".
std::string mapping_call(const LoggedMapping& call, double seconds, const Backtrace& frames,
                         StackEnd end, NameStyle style = NameStyle::folded);

/// The same lines with the process's id in front, as strace has it: "[pid 4711] CallStack[1]: ...".
/// Lines that are indented belong to the one before.
std::string of_process(Tid pid, const std::string& lines);

/// Whole seconds as an integer, others with the decimals that matter: "10", "2.5", "0.034".
std::string seconds_text(double seconds);

/// "3 (120 bytes)".
std::string count_text(BlockCount count);

} // namespace memleax
