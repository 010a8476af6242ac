// SPDX-License-Identifier: GPL-3.0-or-later
#include "frame_labels.hpp"

#include <fmt/format.h>

#include "memleax/base/printable.hpp"

namespace memleax {

namespace {

std::string name_of(const SourceFrame& frame) {
    if (!frame.function.empty()) {
        return frame.function;
    }
    if (frame.module.empty()) {
        return "[unknown]";
    }
    // The vDSO's name has brackets of its own.
    return frame.module.starts_with('[') ? frame.module : fmt::format("[{}]", frame.module);
}

} // namespace

std::string function_label(const SourceFrame& frame) {
    return printable(name_of(frame));
}

std::string missing_frames_label(const Backtrace& frames, StackEnd end) {
    if (end != StackEnd::outermost) {
        return fmt::format("[{}]", describe(end));
    }
    return frames.empty() ? "[no backtrace]" : "";
}

std::string kind_label(const CallStackReport& stack) {
    return stack.kind == MemoryKind::heap ? "" : fmt::format("[{}]", describe(stack.kind));
}

std::string process_label(const Report& report, std::uint32_t index) {
    if (!report.follows_forks || index >= report.processes.size()) {
        return "";
    }
    const Report::Process& process = report.processes[index];
    return valid_utf8(printable(fmt::format("{}-{}", process.comm, process.pid)));
}

} // namespace memleax
