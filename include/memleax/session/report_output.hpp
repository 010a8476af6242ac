// SPDX-License-Identifier: GPL-3.0-or-later
/// Where the report goes: stdout or -o FILE.
#pragma once

#include <string>
#include <string_view>

#include "memleax/base/error.hpp"
#include "memleax/report/report_writer.hpp"

namespace memleax {

class ReportOutput final : public ReportSink {
  public:
    /// Of a FIFO: is it waited for, or has it to be there?
    enum class Reader { awaited, is_there };
    /// Opens the file at once, before the target is touched; "" is stdout. What was in it stays
    /// until the first write.
    static Result<ReportOutput> open(const std::string& path, Reader reader = Reader::awaited);
    /// A file that is not there yet; a symbolic link is.
    static Result<ReportOutput> create(const std::string& path);
    ReportOutput(ReportOutput&& other) noexcept;
    ReportOutput& operator=(ReportOutput&&) = delete;
    ~ReportOutput() override;

    /// Appends. After a failure nothing more is written.
    void write(std::string_view text) override;
    /// To be polled for POLLERR: the reader of a pipe has gone (poll(2)).
    [[nodiscard]] int fd() const { return fd_; }
    /// That was all: what was in the file before goes, if it has not gone by a write.
    void finish();
    /// As if a write had found that.
    void lose_reader();
    /// What the first failed write said.
    [[nodiscard]] int error() const { return error_; }

  private:
    static Result<ReportOutput> of(int fd, const std::string& path);
    explicit ReportOutput(int fd) : fd_(fd) {}
    int fd_;
    int error_ = 0;
    bool truncates_ = false;
};

} // namespace memleax
