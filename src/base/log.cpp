// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/base/log.hpp"

#include <algorithm>
#include <atomic>
#include <unistd.h>

#include "memleax/base/printable.hpp"

namespace memleax {

namespace {
std::atomic<LogLevel> threshold{LogLevel::info};
std::atomic<int> log_fd{STDERR_FILENO};
} // namespace

void set_log_fd(int fd) {
    log_fd.store(fd);
}

void set_log_level(LogLevel level) {
    threshold.store(level, std::memory_order_relaxed);
}

bool log_enabled(LogLevel level) {
    return level <= threshold.load(std::memory_order_relaxed);
}

namespace {

void write_line(std::string_view prefix, std::string_view text) {
    // Lines have names of files, symbols and processes in them.
    std::string line = std::string(prefix) + printable(text);
    line += '\n';
    const int fd = log_fd.load();
    const ssize_t written = write(fd, line.data(), line.size());
    const auto done = static_cast<std::size_t>(std::max<ssize_t>(written, 0));
    if (fd != STDERR_FILENO && done < line.size()) {
        // A closed stderr (the terminal went away) must not keep us from restoring the target.
        [[maybe_unused]] const auto ignored =
            write(STDERR_FILENO, line.data() + done, line.size() - done);
    }
}

} // namespace

void announce(std::string_view text) {
    write_line("memleax: ", text);
}

void log_line(LogLevel level, std::string_view text) {
    static constexpr std::string_view prefixes[] = {
        "memleax: error: ", "memleax: warning: ", "memleax: ", "memleax: debug: "};
    if (log_enabled(level)) {
        write_line(prefixes[static_cast<int>(level)], text);
    }
}

} // namespace memleax
