// SPDX-License-Identifier: GPL-3.0-or-later
/// Compresses what is written to it (RFC 1952) into another sink, piece by piece.
#pragma once

#include <array>

#include <zlib.h>

#include "memleax/report/report_writer.hpp"

namespace memleax {

class GzipSink final : public ReportSink {
  public:
    /// `out` must outlive this. The file says nothing of when it was made: equal input, equal
    /// bytes.
    explicit GzipSink(ReportSink& out);
    ~GzipSink() override;
    GzipSink(const GzipSink&) = delete;
    GzipSink& operator=(const GzipSink&) = delete;

    void write(std::string_view piece) override;
    /// To be called at the end: without it the file is cut.
    void finish();

  private:
    void deflate_all(int flush);

    ReportSink& out_;
    z_stream stream_{};
    std::array<char, 65536> compressed_{};
};

} // namespace memleax
