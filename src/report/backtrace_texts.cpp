// SPDX-License-Identifier: GPL-3.0-or-later
#include "backtrace_texts.hpp"

#include <fmt/format.h>

#include "memleax/base/printable.hpp"

namespace memleax {

namespace {

/// Whether a name brings its parameters along, as demangled C++ does.
bool has_parameters(std::string_view function) {
    constexpr std::string_view kAnonymous = "(anonymous namespace)";
    for (auto at = function.find('('); at != std::string_view::npos; at = function.find('(', at)) {
        if (!function.substr(at).starts_with(kAnonymous)) {
            return true;
        }
        at += kAnonymous.size();
    }
    return false;
}

std::string called(const std::string& function) {
    return printable(has_parameters(function) ? function : function + "()");
}

std::string frame_text(const SourceFrame& frame) {
    std::string line = fmt::format("0x{:016x}  {}", frame.pc.value(),
                                   frame.module.empty() ? "?" : printable(frame.module));
    if (frame.module_offset) {
        line += fmt::format("+0x{:x}", *frame.module_offset);
    }
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
        line += "  " + printable(frame.file);
        if (frame.line != 0) {
            line += fmt::format(":{}", frame.line);
        }
    }
    return line;
}

} // namespace

void BacktraceTexts::append_to(std::string& text, const Backtrace& frames, StackEnd end) {
    for (const ResolvedFrame& frame : frames.machine_frames()) {
        text += lines_.get(frame, [this](const ResolvedFrame& calls) {
            std::string lines;
            for (const SourceFrame& call : *calls) {
                lines += margin_ + frame_text(call) + "\n";
            }
            return lines;
        });
    }
    if (end != StackEnd::outermost) {
        text += fmt::format("{}(no further frames: {})\n", margin_, describe(end));
    }
}

std::string backtrace_text(const Backtrace& frames, StackEnd end, unsigned indent) {
    std::string text;
    BacktraceTexts(indent).append_to(text, frames, end);
    return text;
}

} // namespace memleax
