// SPDX-License-Identifier: GPL-3.0-or-later
#include "line_reader.hpp"

#include <array>
#include <cerrno>
#include <utility>

#include <unistd.h>

namespace memleax {

std::vector<std::string> LineReader::read_some(int fd) {
    std::array<char, 4096> buffer;
    const ssize_t got = read(fd, buffer.data(), buffer.size());
    std::vector<std::string> lines;
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) {
        return lines;
    }
    if (got <= 0) {
        at_end_ = true;
        if (!partial_.empty()) {
            lines.push_back(std::exchange(partial_, {}));
        }
        return lines;
    }
    for (const char c : std::string_view(buffer.data(), static_cast<std::size_t>(got))) {
        if (c == '\n') {
            lines.push_back(std::exchange(partial_, {}));
        } else {
            partial_ += c;
        }
    }
    return lines;
}

} // namespace memleax
