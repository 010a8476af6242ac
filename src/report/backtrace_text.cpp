// SPDX-License-Identifier: GPL-3.0-or-later
#include <fmt/format.h>

#include "memleax/report.hpp"

namespace memleax {

namespace {

/// "function()": C++ names bring their parameters along, others get parentheses.
std::string called(const std::string& function) {
    return function.find('(') == std::string::npos ? function + "()" : function;
}

std::string frame_text(const SourceFrame& frame) {
    std::string line =
        fmt::format("0x{:016x}  {}", frame.pc.value(), frame.module.empty() ? "?" : frame.module);
    if (!frame.function.empty()) {
        line += "  " + called(frame.function);
        if (frame.inlined) {
            line += " [inlined]";
        } else if (frame.offset) {
            line += fmt::format("+{}", *frame.offset);
        }
    } else if (!frame.file.empty()) {
        line += "  ?()";
    }
    if (!frame.file.empty()) {
        line += fmt::format("  {}:{}", frame.file, frame.line);
    }
    return line;
}

} // namespace

std::string backtrace_text(const std::vector<SourceFrame>& frames, StackEnd end, unsigned indent) {
    std::string text;
    const std::string margin(indent, ' ');
    for (const SourceFrame& frame : frames) {
        text += margin + frame_text(frame) + "\n";
    }
    if (end != StackEnd::outermost) {
        text += fmt::format("{}(no further frames: {})\n", margin, describe(end));
    }
    return text;
}

} // namespace memleax
