// SPDX-License-Identifier: GPL-3.0-or-later
/// Many short lines as few large pieces: a sink may flush each piece.
#pragma once

#include <cstddef>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "memleax/report/report_writer.hpp"

namespace memleax {

class PieceBuffer {
  public:
    explicit PieceBuffer(ReportSink& sink) : sink_(sink) {}

    template <class... Args> void print(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(fmt::appender(text_), format, std::forward<Args>(args)...);
        if (text_.size() >= kPiece) {
            flush();
        }
    }
    void put(std::string_view text) { text_.append(text.data(), text.data() + text.size()); }
    /// To be called at the end.
    void flush() {
        sink_.write({text_.data(), text_.size()});
        text_.clear();
    }

  private:
    static constexpr std::size_t kPiece = 65536;
    ReportSink& sink_;
    fmt::memory_buffer text_;
};

} // namespace memleax
