// SPDX-License-Identifier: GPL-3.0-or-later
/// Many short lines as few large pieces: a sink may flush each piece.
#pragma once

#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "memleax/report_writer.hpp"

namespace memleax {

class PieceBuffer {
  public:
    explicit PieceBuffer(ReportSink& sink) : sink_(sink) {}

    template <class... Args> void print(fmt::format_string<Args...> format, Args&&... args) {
        fmt::format_to(std::back_inserter(text_), format, std::forward<Args>(args)...);
        if (text_.size() >= kPiece) {
            flush();
        }
    }
    /// To be called at the end.
    void flush() {
        sink_.write(text_);
        text_.clear();
    }

  private:
    static constexpr std::size_t kPiece = 64 * 1024;
    ReportSink& sink_;
    std::string text_;
};

} // namespace memleax
