// SPDX-License-Identifier: GPL-3.0-or-later
#include "proc_file.hpp"

#include <cerrno>

#include <fcntl.h>
#include <unistd.h>

namespace memleax {

std::optional<std::string> try_read_proc_file(const std::string& path) {
    const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (fd < 0) {
        return std::nullopt;
    }
    std::string text;
    char buffer[4096];
    ssize_t got = 0;
    while ((got = read(fd, buffer, sizeof buffer)) > 0 || (got < 0 && errno == EINTR)) {
        text.append(buffer, got > 0 ? static_cast<std::size_t>(got) : 0);
    }
    const int saved = errno;
    close(fd);
    errno = saved;
    if (got < 0) {
        return std::nullopt;
    }
    return text;
}

} // namespace memleax
