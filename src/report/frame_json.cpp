// SPDX-License-Identifier: GPL-3.0-or-later
#include "frame_json.hpp"

#include <fmt/format.h>

namespace memleax {

nlohmann::ordered_json frame_json(const SourceFrame& frame) {
    nlohmann::ordered_json json;
    json["pc"] = fmt::format("0x{:x}", frame.pc.value());
    if (!frame.module.empty()) {
        json["module"] = frame.module;
    }
    if (!frame.function.empty()) {
        json["function"] = frame.function;
    }
    if (frame.offset) {
        json["offset"] = *frame.offset;
    }
    if (frame.module_offset) {
        json["module_offset"] = *frame.module_offset;
    }
    if (!frame.file.empty()) {
        json["file"] = frame.file;
    }
    if (frame.line != 0) {
        json["line"] = frame.line;
    }
    if (frame.inlined) {
        json["inlined"] = true;
    }
    return json;
}

nlohmann::ordered_json frames_json(const Backtrace& frames) {
    auto json = nlohmann::ordered_json::array();
    for (const SourceFrame& frame : frames) {
        json.push_back(frame_json(frame));
    }
    return json;
}

} // namespace memleax
