// SPDX-License-Identifier: GPL-3.0-or-later
/// Where the report goes: stdout or -o FILE.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "memleax/base/error.hpp"
#include "memleax/report/report_writer.hpp"

namespace memleax {

class ReportOutput final : public ReportSink {
  public:
    /// Opens the file at once, before the target is touched; "" is stdout.
    static Result<ReportOutput> open(const std::string& path);
    /// A file that is not there yet; a symbolic link is.
    static Result<ReportOutput> create(const std::string& path);
    ReportOutput(ReportOutput&& other) noexcept;
    ReportOutput& operator=(ReportOutput&&) = delete;
    ~ReportOutput() override;

    /// Appends, and flushes. After a failure nothing more is written.
    void write(std::string_view text) override;
    /// To be polled for POLLERR: the reader of a pipe has gone (poll(2)).
    [[nodiscard]] int fd() const;
    /// As if a write had found that.
    void lose_reader();
    /// What the first failed write said.
    [[nodiscard]] int error() const { return error_; }

  private:
    static Result<ReportOutput> opened(const std::string& path, const char* mode);
    explicit ReportOutput(std::FILE* file) : file_(file) {}
    std::FILE* file_;
    int error_ = 0;
};

} // namespace memleax
