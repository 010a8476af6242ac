// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

#include "backtrace_texts.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/probes/probe_requests.hpp"
#include "memleax/report/probe_report.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

/// Pointers and flags are hexadecimal to people, counts are not.
std::string value_text(std::int64_t value) {
    const bool is_int = value >= std::numeric_limits<std::int32_t>::min() &&
                        value <= std::numeric_limits<std::int32_t>::max();
    return is_int ? fmt::format("{}", value)
                  : fmt::format("0x{:x}", static_cast<std::uint64_t>(value));
}

} // namespace

std::string probe_line(const ProbeReport& probe) {
    constexpr std::size_t kShownArguments = 8;
    std::string text = fmt::format("{}: {}", printable(probe.name), number_of(probe.calls, "call"));
    if (const std::string_view meaning = explain_probe(probe.name); !meaning.empty()) {
        text += fmt::format(" ({})", meaning);
    }
    const char* separator = "; first argument: ";
    std::uint64_t others = probe.other_arguments;
    for (std::size_t i = 0; i < probe.arguments.size(); ++i) {
        const ProbeCalls::Argument& argument = probe.arguments[i];
        if (i >= kShownArguments) {
            others += argument.calls;
            continue;
        }
        text += fmt::format("{}{} ({})", separator, value_text(argument.value), argument.calls);
        separator = ", ";
    }
    if (others != 0) {
        text += fmt::format(", others ({})", others);
    }
    return text;
}

std::string probes_text(std::span<const ProbeReport> probes, std::optional<std::uint32_t> process,
                        NameStyle style) {
    BacktraceTexts backtraces(4, style);
    std::string text;
    for (const ProbeReport& probe : probes) {
        if (process && probe.process != *process) {
            continue;
        }
        text += fmt::format("Probe {}\n", probe_line(probe));
        for (const ProbeReport::Stack& stack : probe.stacks) {
            text += fmt::format("  {}:\n", number_of(stack.calls, "call"));
            backtraces.append_to(text, stack.frames, stack.end);
        }
        text += "\n";
    }
    return text;
}

} // namespace memleax
