// SPDX-License-Identifier: GPL-3.0-or-later
#include "log_pipe.hpp"

#include <array>

#include <fcntl.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/output_wait.hpp"

namespace memleax {

LogPipe::LogPipe() {
    if (pipe2(fds_, O_CLOEXEC | O_NONBLOCK) == 0) {
        set_log_fd(fds_[1]);
    }
}

LogPipe::~LogPipe() {
    set_log_fd(STDERR_FILENO);
    const std::string rest = take();
    write_and_wait(STDERR_FILENO, rest.data(), rest.size());
    close(fds_[0]);
    close(fds_[1]);
}

std::string LogPipe::take() const {
    std::array<char, 4096> buffer;
    std::string text;
    for (ssize_t got = 0; (got = read(fds_[0], buffer.data(), buffer.size())) > 0;) {
        text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text;
}

} // namespace memleax
