// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/report_output.hpp"

#include <cerrno>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace memleax {

Result<ReportOutput> ReportOutput::open(const std::string& path) {
    return path.empty() ? ReportOutput(stdout) : opened(path, "we");
}

Result<ReportOutput> ReportOutput::create(const std::string& path) {
    return opened(path, "wxe");
}

Result<ReportOutput> ReportOutput::opened(const std::string& path, const char* mode) {
    std::FILE* file = std::fopen(path.c_str(), mode);
    if (file == nullptr) {
        return Error(fmt::format("cannot write {}", path), errno);
    }
    return ReportOutput(file);
}

ReportOutput::ReportOutput(ReportOutput&& other) noexcept
    : file_(std::exchange(other.file_, nullptr)), error_(other.error_) {}

ReportOutput::~ReportOutput() {
    if (file_ != nullptr && file_ != stdout) {
        std::fclose(file_);
    }
}

int ReportOutput::fd() const {
    return fileno(file_);
}

void ReportOutput::lose_reader() {
    if (error_ == 0) {
        error_ = EPIPE;
    }
}

void ReportOutput::write(std::string_view text) {
    if (error_ != 0 || text.empty()) {
        return;
    }
    errno = 0;
    if (std::fwrite(text.data(), 1, text.size(), file_) != text.size() || std::fflush(file_) != 0) {
        error_ = errno != 0 ? errno : EIO;
    }
}

} // namespace memleax
