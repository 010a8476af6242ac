// SPDX-License-Identifier: GPL-3.0-or-later
#include "backtrace_texts.hpp"

#include <algorithm>
#include <span>

#include <fmt/format.h>

#include "memleax/base/printable.hpp"
#include "memleax/report/own_frame.hpp"
#include "memleax/report/place_text.hpp"

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

std::string called(const std::string& function, NameStyle style) {
    const std::string name = style == NameStyle::folded ? folded_name(function) : function;
    return printable(has_parameters(name) ? name : name + "()");
}

std::string place(const SourceFrame& frame) {
    std::string line = fmt::format("0x{:016x}  {}", frame.pc.value(),
                                   frame.module.empty() ? "?" : printable(frame.module));
    if (frame.module_offset) {
        line += fmt::format("+0x{:x}", *frame.module_offset);
    }
    return line;
}

std::string frame_text(const SourceFrame& frame, NameStyle style) {
    std::string line = place(frame);
    if (!frame.function.empty()) {
        line += "  " + called(frame.function, style);
        if (frame.inlined) {
            line += " [inlined]";
        } else if (frame.offset) {
            line += fmt::format("+{}", *frame.offset);
        }
    } else if (!frame.file.empty()) {
        line += "  ?()";
    }
    const std::string source = source_text(frame, style);
    return source.empty() ? line : line + "  " + source;
}

/// One machine frame; inlined calls within the standard library are one line, if there are several
/// in a row.
std::string frames_text(std::span<const SourceFrame> calls, NameStyle style,
                        const std::string& margin) {
    std::string lines;
    while (!calls.empty()) {
        const auto other =
            std::find_if_not(calls.begin(), calls.end(), [style](const SourceFrame& call) {
                return style == NameStyle::folded && call.inlined && is_standard_library(call);
            });
        const auto run = static_cast<std::size_t>(other - calls.begin());
        lines += margin;
        if (run > 1) {
            lines += fmt::format("{}  {} frames of std [inlined]\n", place(calls.front()), run);
            calls = calls.subspan(run);
        } else {
            lines += frame_text(calls.front(), style) + "\n";
            calls = calls.subspan(1);
        }
    }
    return lines;
}

} // namespace

void BacktraceTexts::append_to(std::string& text, const Backtrace& frames, StackEnd end) {
    for (const ResolvedFrame& frame : frames.machine_frames()) {
        text += lines_.get(frame, [this](const ResolvedFrame& calls) {
            return frames_text(*calls, style_, margin_);
        });
    }
    if (end != StackEnd::outermost) {
        text += fmt::format("{}(no further frames: {})\n", margin_, describe(end));
    }
}

std::string backtrace_text(const Backtrace& frames, StackEnd end, unsigned indent,
                           NameStyle style) {
    std::string text;
    BacktraceTexts(indent, style).append_to(text, frames, end);
    return text;
}

} // namespace memleax
