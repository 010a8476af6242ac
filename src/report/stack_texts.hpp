// SPDX-License-Identifier: GPL-3.0-or-later
/// The JSON report's text, which is too long for one document in memory: it is written as it comes.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "frame_cache.hpp"
#include "memleax/report/report.hpp"

namespace memleax {

/// Indented as part of the document. File names and symbols come from untrusted files and need not
/// be UTF-8.
std::string text_of(const nlohmann::ordered_json& json, unsigned indent);

/// A list of call stacks. Frames make up most of a report: the text of each is made once.
class StackTexts {
  public:
    /// Its elements are indented so far.
    explicit StackTexts(unsigned indent) : indent_(indent) {}

    /// An element. `stack` has an empty array of frames.
    std::string text(const nlohmann::ordered_json& stack, const Backtrace& frames);

    /// Where the elements of this array go; it is the only place of this text: within a string its
    /// quotes would be escaped.
    static std::size_t place_in_empty(const char* array, const std::string& text);

  private:
    [[nodiscard]] std::string frames_text(const ResolvedFrame& frame) const;
    FrameCache<std::string> texts_;
    unsigned indent_;
};

} // namespace memleax
