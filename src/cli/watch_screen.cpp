// SPDX-License-Identifier: GPL-3.0-or-later
#include "watch_screen.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <unistd.h>

#include "clock_text.hpp"
#include "memleax/report/live_lines.hpp"

namespace memleax {

namespace {

// xterm's private modes: the alternate screen with the cursor's place saved (1049), and the cursor
// (25).
constexpr const char* kEnter = "\x1b[?1049h\x1b[?25l\x1b[H\x1b[2J";
constexpr const char* kLeave = "\x1b[?25h\x1b[?1049l";

/// The first `rows` lines, each with its end.
std::string first_lines(const std::string& text, std::size_t rows) {
    std::size_t end = 0;
    for (; rows > 0 && end < text.size(); --rows) {
        const auto line_end = text.find('\n', end);
        if (line_end == std::string::npos) {
            return text + "\n";
        }
        end = line_end + 1;
    }
    return text.substr(0, end);
}

/// Each line in at most `columns` columns: one that goes on in the next row moves all others.
std::string shortened_lines(const std::string& text, std::size_t columns) {
    std::string result;
    for (std::size_t begin = 0; begin < text.size();) {
        const auto end = std::min(text.find('\n', begin), text.size());
        result += shortened(text.substr(begin, end - begin), columns) + "\n";
        begin = end + 1;
    }
    return result;
}

} // namespace

WatchScreen::WatchScreen(Console& console, std::string line, double period_s)
    : console_(console), line_(std::move(line)),
      every_(fmt::format("Every {} s: ", seconds_text(period_s))), timer_(period_s) {
    if (tcgetattr(STDIN_FILENO, &usual_.mode) == 0) {
        usual_.fd = console_.fd();
        usual_.farewell = kLeave;
        set_crash_terminal(&usual_);
        termios keys = usual_.mode;
        keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
        keys.c_cc[VMIN] = 1;
        keys.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSADRAIN, &keys);
    }
    console_.write(kEnter);
}

WatchScreen::~WatchScreen() {
    console_.write(kLeave + shown_);
    if (usual_.fd >= 0) {
        tcsetattr(STDIN_FILENO, TCSADRAIN, &usual_.mode);
        set_crash_terminal(nullptr);
    }
}

void WatchScreen::draw(const std::string& text) {
    const unsigned rows = console_.rows();
    shown_ = first_lines(text, rows > 3 ? rows - 3 : 1);
    const std::string time = clock_text();
    const std::size_t columns = console_.columns();
    const std::size_t room = columns > time.size() + 2 ? columns - time.size() - 2 : 0;
    std::string picture = fmt::format("\x1b[H{:<{}}  {}\n\n{}", shortened(every_ + line_, room),
                                      room, time, shortened_lines(shown_, columns));
    for (auto at = picture.find('\n'); at != std::string::npos; at = picture.find('\n', at + 4)) {
        picture.insert(at, "\x1b[K"); // what the last picture had behind it
    }
    console_.write(picture + "\x1b[J");
}

void WatchScreen::take_keys() {
    std::array<char, 256> keys;
    [[maybe_unused]] const auto ignored = read(STDIN_FILENO, keys.data(), keys.size());
}

} // namespace memleax
