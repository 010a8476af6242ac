// SPDX-License-Identifier: GPL-3.0-or-later
/// The probes of a report: --probe.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "memleax/events/allocation_event.hpp"
#include "memleax/events/source_frame.hpp"
#include "memleax/report/folded_name.hpp"
#include "memleax/track/probe_account.hpp"

namespace memleax {

struct ProbeReport {
    struct Stack {
        std::uint64_t calls = 0;
        Backtrace frames;
        StackEnd end = StackEnd::outermost;
    };
    std::uint32_t process = 0; ///< index in Report::processes
    std::string name;          ///< "libc:memory_heap_new", or a function's
    std::uint64_t calls = 0;
    std::vector<Stack> stacks;                   ///< most calls last
    std::vector<ProbeCalls::Argument> arguments; ///< values of the first one, most calls first
    std::uint64_t other_arguments = 0;           ///< see ProbeCalls
};

/// "demo:step: 12 calls; first argument: 5 (10 times), 7 (twice)", without its newline. Says what
/// glibc's mean.
std::string probe_line(const ProbeReport& probe);
/// Those of one process, or of all, each with its call stacks.
std::string probes_text(std::span<const ProbeReport> probes, std::optional<std::uint32_t> process,
                        NameStyle style);

} // namespace memleax
