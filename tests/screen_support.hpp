// SPDX-License-Identifier: GPL-3.0-or-later
/// What somebody in front of a terminal sees: enough of an xterm for readline.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace memleax::testing {

class Screen {
  public:
    Screen(std::size_t rows, std::size_t columns);
    /// What has scrolled away is forgotten; what is there stays where it is.
    void resize(std::size_t rows, std::size_t columns);
    void write(std::string_view bytes);

    /// Without blanks at its end.
    [[nodiscard]] std::string line(std::size_t row) const;
    /// From the top to the cursor's.
    [[nodiscard]] std::vector<std::string> lines() const;
    /// Where the cursor is: what stands before it on its line, blanks included.
    [[nodiscard]] std::string before_cursor() const;
    [[nodiscard]] std::string cursor_line() const { return line(row_); }
    [[nodiscard]] std::size_t columns() const { return columns_; }
    /// All at once, for the message of a failed test.
    [[nodiscard]] std::string picture() const;

  private:
    void put(char c);
    void control(char c);
    void line_feed();
    /// `CSI parameters final`
    void sequence(const std::string& parameters, char final);

    std::size_t rows_;
    std::size_t columns_;
    std::vector<std::string> cells_;
    std::size_t row_ = 0;
    std::size_t column_ = 0;
    bool wrap_pending_ = false; ///< the last column is full; the next character begins a line
    std::string escape_;        ///< an unfinished sequence
};

} // namespace memleax::testing
