// SPDX-License-Identifier: GPL-3.0-or-later
#include "console.hpp"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <utility>

#include <sys/ioctl.h>
#include <unistd.h>

#include "memleax/base/output_wait.hpp"

namespace memleax {

namespace {

constexpr unsigned kEndless = 1'000'000;

bool wants_colors(Options::Color color, bool terminal) {
    if (color != Options::Color::automatic) {
        return color == Options::Color::always;
    }
    // The NO_COLOR convention: set, and not empty.
    const char* no_color = std::getenv("NO_COLOR");
    const char* term = std::getenv("TERM");
    return terminal && (no_color == nullptr || *no_color == '\0') && term != nullptr &&
           std::strcmp(term, "dumb") != 0;
}

const char* escape(Style style) {
    switch (style) {
    case Style::plain:
        return "";
    case Style::heading:
        return "\x1b[1m";
    case Style::dim:
        return "\x1b[2m";
    case Style::good:
        return "\x1b[32m";
    case Style::warning:
        return "\x1b[33m";
    case Style::bad:
        return "\x1b[1;31m";
    }
    return "";
}

winsize size_of(int fd) {
    winsize size{};
    if (ioctl(fd, TIOCGWINSZ, &size) != 0) {
        size = {};
    }
    return size;
}

/// A serial console, or expect's terminal, has 0 for what it does not know; then as readline does.
unsigned known(unsigned short told, const char* variable, unsigned short otherwise) {
    const char* text = std::getenv(variable);
    unsigned short value = told;
    if (value == 0 && text != nullptr) {
        std::from_chars(text, text + std::strlen(text), value);
    }
    return value > 0 ? value : otherwise;
}

bool is_continuation(char c) {
    return (static_cast<unsigned char>(c) & 0xc0U) == 0x80U;
}

} // namespace

Console::Console(int fd, Options::Color color)
    : fd_(fd), color_(color), terminal_(isatty(fd) == 1) {}

unsigned Console::columns() const {
    constexpr unsigned short kUsual = 80;
    return is_terminal() ? known(size_of(fd_).ws_col, "COLUMNS", kUsual) : kEndless;
}

unsigned Console::rows() const {
    constexpr unsigned short kUsual = 24;
    return is_terminal() ? known(size_of(fd_).ws_row, "LINES", kUsual) : kEndless;
}

std::string Console::styled(Style style, std::string_view text) const {
    if (style == Style::plain || !wants_colors(color_, is_terminal())) {
        return std::string(text);
    }
    return std::string(escape(style)).append(text).append("\x1b[0m");
}

std::string Console::take() {
    return std::exchange(pending_, {});
}

bool Console::write(std::string_view text) {
    broken_ = broken_ || write_and_wait(fd_, text.data(), text.size()) != 0;
    return !broken_;
}

bool Console::is_long(std::string_view text) const {
    return is_terminal() &&
           static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n')) + 1 >= rows();
}

std::string shortened(const std::string& text, std::size_t columns) {
    constexpr std::size_t kEllipsis = 3;
    const auto width = static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); }));
    if (width <= columns) {
        return text;
    }
    std::size_t end = 0;
    for (std::size_t room = columns > kEllipsis ? columns - kEllipsis : 0; end < text.size();
         ++end) {
        if (!is_continuation(text[end]) && room-- == 0) {
            break;
        }
    }
    return text.substr(0, end) + std::string(std::min(columns, kEllipsis), '.');
}

std::vector<std::string> wrapped(std::string_view text, std::size_t columns) {
    std::vector<std::string> pieces;
    while (true) {
        std::size_t end = 0;
        std::size_t best = 0; // behind what may end a piece
        for (std::size_t width = 0; end < text.size(); ++end) {
            if (!is_continuation(text[end]) && width++ == columns) {
                break;
            }
            const bool is_scope = text[end] == ':' && end > 0 && text[end - 1] == ':';
            if (text[end] == ' ' || text[end] == ',' || is_scope) {
                best = end + 1;
            }
        }
        if (end == text.size()) {
            pieces.emplace_back(text);
            return pieces;
        }
        if (text[end] == ' ') { // it fits exactly
            best = end + 1;
        }
        const std::string_view piece = text.substr(0, best > 0 ? best : end);
        pieces.emplace_back(piece.substr(0, piece.find_last_not_of(' ') + 1));
        text.remove_prefix(piece.size());
    }
}

} // namespace memleax
