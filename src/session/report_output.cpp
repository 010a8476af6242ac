// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/report_output.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "memleax/base/output_wait.hpp"

namespace memleax {

Result<ReportOutput> ReportOutput::open(const std::string& path, Reader reader) {
    constexpr mode_t kAsFopen = 0666;
    if (path.empty()) {
        return ReportOutput(STDOUT_FILENO);
    }
    const OutputWait wait;
    const int how = reader == Reader::is_there ? O_NONBLOCK : 0;
    const int fd = ::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | how, kAsFopen);
    if (fd >= 0) {
        fcntl(fd, F_SETFL, 0); // opened is all that it was for
    }
    auto output = of(fd, path);
    if (output) {
        output->truncates_ = true;
    }
    return output;
}

Result<ReportOutput> ReportOutput::create(const std::string& path) {
    constexpr mode_t kAsFopen = 0666;
    return of(::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, kAsFopen), path);
}

Result<ReportOutput> ReportOutput::of(int fd, const std::string& path) {
    if (fd < 0) {
        return Error(fmt::format("cannot write {}", path), errno);
    }
    return ReportOutput(fd);
}

ReportOutput::ReportOutput(ReportOutput&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), error_(other.error_), truncates_(other.truncates_) {}

ReportOutput::~ReportOutput() {
    if (fd_ > STDERR_FILENO) {
        close(fd_);
    }
}

void ReportOutput::lose_reader() {
    if (error_ == 0) {
        error_ = EPIPE;
    }
}

void ReportOutput::write(std::string_view text) {
    if (!text.empty()) {
        finish();
    }
    if (error_ == 0) {
        error_ = write_and_wait(fd_, text.data(), text.size());
    }
}

void ReportOutput::finish() {
    if (std::exchange(truncates_, false) && ftruncate(fd_, 0) != 0 && errno != EINVAL) {
        error_ = errno; // EINVAL: a pipe, a terminal
    }
}

} // namespace memleax
