// SPDX-License-Identifier: GPL-3.0-or-later
/// Diagnostics: one line each on stderr, "memleax: ..." ; reports go elsewhere. Safe from any
/// thread. Who must not wait for stderr's reader: see log_relay.hpp.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace memleax {

enum class LogLevel { error, warning, info, debug };

/// Lines go there from now on, and not to stderr. To stderr goes nevertheless what `fd` does not
/// take, as a full pipe that is non-blocking.
void set_log_fd(int fd);
/// Lines above this level are dropped. Default: info.
void set_log_level(LogLevel level);
[[nodiscard]] bool log_enabled(LogLevel level);
/// A line that is not a diagnostic and is written at every level: what scripts wait for.
void announce(std::string_view text);
/// Writes one line with a single write(2), if it can be done so.
void log_line(LogLevel level, std::string_view text);

template <class... Args> void log_error(fmt::format_string<Args...> format, Args&&... args) {
    log_line(LogLevel::error, fmt::format(format, std::forward<Args>(args)...));
}
template <class... Args> void log_warning(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::warning)) {
        log_line(LogLevel::warning, fmt::format(format, std::forward<Args>(args)...));
    }
}
template <class... Args> void log_info(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::info)) {
        log_line(LogLevel::info, fmt::format(format, std::forward<Args>(args)...));
    }
}
template <class... Args> void log_debug(fmt::format_string<Args...> format, Args&&... args) {
    if (log_enabled(LogLevel::debug)) {
        log_line(LogLevel::debug, fmt::format(format, std::forward<Args>(args)...));
    }
}

} // namespace memleax
