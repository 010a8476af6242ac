// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace memleax {

/// Why a call stopped its thread, under an engine that needs no stop for the usual one.
enum class StopReason : std::uint8_t {
    new_stack,       ///< the first one with this call stack
    irregular_stack, ///< it has to be walked by the tracer each time
    no_room,         ///< as there is for no more call stacks
    foreign_stack,   ///< the thread is on another stack than before
    new_thread,      ///< its thread's first
    no_block,        ///< there is nothing for its thread
    ring_full,       ///< what the thread has recorded has to be read first
    signal_handler,  ///< a signal's handler makes it that has interrupted another one
    stopped_call,    ///< it is within another one that has stopped, or follows it
    unknown_block,   ///< with --check: it ends what may be no live block
    breakpoint,      ///< its function can be watched by a breakpoint only
    other
};
inline constexpr std::size_t kStopReasons = static_cast<std::size_t>(StopReason::other) + 1;
/// In the plural, for reports: "new call stacks".
const char* describe(StopReason reason);
/// As JSON has it: "new_stack".
const char* key_of(StopReason reason);

using StopCounts = std::array<std::uint64_t, kStopReasons>;

/// What such an engine has seen so far.
struct SeenCalls {
    std::uint64_t all = 0;
    std::uint64_t stopped = 0; ///< those whose threads had to be stopped
    StopCounts why{};          ///< stops, by StopReason; they add up to `stopped`
    SeenCalls& operator+=(const SeenCalls& other) {
        all += other.all;
        stopped += other.stopped;
        for (std::size_t i = 0; i < why.size(); ++i) {
            why.at(i) += other.why.at(i);
        }
        return *this;
    }
};

} // namespace memleax
