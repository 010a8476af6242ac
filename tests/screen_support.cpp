// SPDX-License-Identifier: GPL-3.0-or-later
#include "screen_support.hpp"

#include <algorithm>

namespace memleax::testing {

namespace {

std::string without_blanks_at_end(const std::string& text) {
    return text.substr(0, text.find_last_not_of(' ') + 1);
}

} // namespace

Screen::Screen(std::size_t rows, std::size_t columns)
    : rows_(rows), columns_(columns), cells_(rows, std::string(columns, ' ')) {}

void Screen::resize(std::size_t rows, std::size_t columns) {
    if (row_ >= rows) {
        cells_.erase(cells_.begin(), cells_.begin() + static_cast<std::ptrdiff_t>(row_ + 1 - rows));
        row_ = rows - 1;
    }
    cells_.resize(rows);
    for (std::string& line : cells_) {
        line.resize(columns, ' ');
    }
    rows_ = rows;
    columns_ = columns;
    column_ = std::min(column_, columns - 1);
    wrap_pending_ = false;
}

void Screen::write(std::string_view bytes) {
    for (const char c : bytes) {
        if (!escape_.empty()) {
            escape_ += c;
            const bool csi = escape_[1] == '[';
            if (escape_.size() == 2 && csi) {
                continue;
            }
            if (!csi || (c >= '@' && c <= '~')) {
                if (csi) {
                    sequence(escape_.substr(2, escape_.size() - 3), c);
                }
                escape_.clear();
            }
        } else if (c == '\x1b') {
            escape_ = c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            control(c);
        } else {
            put(c);
        }
    }
}

void Screen::put(char c) {
    if (wrap_pending_) {
        column_ = 0;
        line_feed();
        wrap_pending_ = false;
    }
    cells_[row_][column_] = c;
    if (column_ + 1 == columns_) {
        wrap_pending_ = true;
    } else {
        ++column_;
    }
}

void Screen::control(char c) {
    wrap_pending_ = wrap_pending_ && c == '\a';
    if (c == '\r') {
        column_ = 0;
    } else if (c == '\n') {
        line_feed();
    } else if (c == '\b' && column_ > 0) {
        --column_;
    } else if (c == '\t') {
        column_ = std::min((column_ / 8 + 1) * 8, columns_ - 1);
    }
}

void Screen::line_feed() {
    if (row_ + 1 < rows_) {
        ++row_;
        return;
    }
    cells_.erase(cells_.begin());
    cells_.emplace_back(columns_, ' ');
}

void Screen::sequence(const std::string& parameters, char final) {
    const std::size_t n = parameters.empty() || parameters[0] == '?' ? 0 : std::stoul(parameters);
    const std::size_t times = std::max<std::size_t>(n, 1);
    wrap_pending_ = wrap_pending_ && (final == 'm' || final == 'h' || final == 'l');
    switch (final) {
    case 'A':
        row_ -= std::min(row_, times);
        break;
    case 'B':
        row_ = std::min(row_ + times, rows_ - 1);
        break;
    case 'C':
        column_ = std::min(column_ + times, columns_ - 1);
        break;
    case 'D':
        column_ -= std::min(column_, times);
        break;
    case 'H':
        row_ = column_ = 0;
        break;
    case 'K':
        std::fill(cells_[row_].begin() + static_cast<std::ptrdiff_t>(column_), cells_[row_].end(),
                  ' ');
        break;
    case 'J':
        sequence("", 'K');
        for (std::size_t row = n == 2 ? 0 : row_ + 1; row < rows_; ++row) {
            cells_[row].assign(columns_, ' ');
        }
        break;
    case 'P':
        cells_[row_].erase(column_, times);
        cells_[row_].resize(columns_, ' ');
        break;
    case '@':
        cells_[row_].insert(column_, times, ' ');
        cells_[row_].resize(columns_);
        break;
    default: // colours and modes are not seen here
        break;
    }
}

std::string Screen::line(std::size_t row) const {
    return without_blanks_at_end(cells_[row]);
}

std::vector<std::string> Screen::lines() const {
    std::vector<std::string> result;
    for (std::size_t row = 0; row <= row_; ++row) {
        result.push_back(line(row));
    }
    return result;
}

std::string Screen::before_cursor() const {
    return cells_[row_].substr(0, column_);
}

std::string Screen::picture() const {
    std::string text;
    for (const std::string& line : cells_) {
        text += "  |" + without_blanks_at_end(line) + "\n";
    }
    return text;
}

} // namespace memleax::testing
