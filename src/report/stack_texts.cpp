// SPDX-License-Identifier: GPL-3.0-or-later
#include "stack_texts.hpp"

#include <fmt/format.h>

#include "frame_json.hpp"

namespace memleax {

namespace {

using Json = nlohmann::ordered_json;

} // namespace

std::string text_of(const Json& json, unsigned indent) {
    std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
    const std::string margin(indent, ' ');
    std::string result;
    std::size_t begin = 0;
    for (auto end = text.find('\n'); end != std::string::npos; end = text.find('\n', begin)) {
        result.append(text, begin, end + 1 - begin).append(margin);
        begin = end + 1;
    }
    return result.append(text, begin);
}

std::string StackTexts::text(const Json& stack, const Backtrace& frames) {
    std::string text = text_of(stack, indent_);
    if (frames.empty()) {
        return text;
    }
    std::string all;
    for (const ResolvedFrame& frame : frames.machine_frames()) {
        all += all.empty() ? "" : ",";
        all += texts_.get(frame, [this](const ResolvedFrame& each) { return frames_text(each); });
    }
    all.append("\n").append(indent_ + 2, ' ');
    return text.insert(place_in_empty("frames", text), all);
}

std::size_t StackTexts::place_in_empty(const char* array, const std::string& text) {
    const std::string empty = fmt::format("\"{}\": []", array);
    return text.find(empty) + empty.size() - 1;
}

std::string StackTexts::frames_text(const ResolvedFrame& frame) const {
    std::string text;
    for (const SourceFrame& call : *frame) {
        text += text.empty() ? "\n" : ",\n";
        text.append(indent_ + 4, ' ').append(text_of(frame_json(call), indent_ + 4));
    }
    return text;
}

} // namespace memleax
