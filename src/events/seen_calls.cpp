// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/events/seen_calls.hpp"

namespace memleax {

namespace {
struct Names {
    const char* key;
    const char* text;
};
constexpr std::array<Names, kStopReasons> kNames{{
    {"new_stack", "new call stacks"},
    {"irregular_stack", "irregular call stacks"},
    {"no_room", "call stacks beyond the most"},
    {"foreign_stack", "changes of the stack"},
    {"new_thread", "new threads"},
    {"no_block", "threads beyond the most"},
    {"ring_full", "full rings"},
    {"signal_handler", "signal handlers"},
    {"stopped_call", "after a stop"},
    {"unknown_block", "unknown blocks"},
    {"breakpoint", "breakpoints"},
    {"other", "other reasons"},
}};
} // namespace

const char* describe(StopReason reason) {
    return kNames.at(static_cast<std::size_t>(reason)).text;
}

const char* key_of(StopReason reason) {
    return kNames.at(static_cast<std::size_t>(reason)).key;
}

} // namespace memleax
