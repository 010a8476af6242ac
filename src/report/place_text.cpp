// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/place_text.hpp"

#include <fmt/format.h>

#include "function_name.hpp"
#include "memleax/base/printable.hpp"

namespace memleax {

std::string frame_name(const SourceFrame& frame, NameStyle style) {
    if (!frame.function.empty()) {
        const std::string_view name = bare_name(frame.function);
        return printable(style == NameStyle::folded ? folded_name(name) : std::string(name));
    }
    if (frame.module.empty()) {
        return fmt::format("0x{:x}", frame.pc.value());
    }
    return fmt::format("{}+0x{:x}", printable(frame.module),
                       frame.module_offset.value_or(frame.pc.value()));
}

std::string source_text(const SourceFrame& frame, NameStyle style) {
    if (frame.file.empty()) {
        return "";
    }
    const std::string file = printable(
        style == NameStyle::folded ? frame.file.substr(frame.file.rfind('/') + 1) : frame.file);
    return frame.line == 0 ? file : fmt::format("{}:{}", file, frame.line);
}

std::string place_text(const SourceFrame& frame, NameStyle style) {
    const std::string name = frame_name(frame, style);
    const std::string source = source_text(frame, style);
    if (!source.empty()) {
        return fmt::format("{} ({})", name, source);
    }
    return frame.function.empty() || frame.module.empty()
               ? name
               : fmt::format("{} ({})", name, printable(frame.module));
}

} // namespace memleax
