// SPDX-License-Identifier: GPL-3.0-or-later
/// Where the prompt's commands print: a terminal, a pipe, or nowhere any more.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "memleax/cli/options.hpp"

namespace memleax {

/// How a piece of text looks on a terminal that has colours.
enum class Style { plain, heading, dim, good, warning, bad };

class Console {
  public:
    /// `fd` stays the caller's.
    Console(int fd, Options::Color color);

    /// While it is there, what commands print is for a program, not for the terminal: as wide as
    /// it gets, and in colour only if --color=always asks for it.
    class ForProgram {
      public:
        explicit ForProgram(Console& console) : console_(console) { console_.for_program_ = true; }
        ~ForProgram() { console_.for_program_ = false; }
        ForProgram(const ForProgram&) = delete;
        ForProgram& operator=(const ForProgram&) = delete;

      private:
        Console& console_;
    };

    [[nodiscard]] int fd() const { return fd_; }
    [[nodiscard]] bool is_terminal() const { return terminal_ && !for_program_; }
    /// Columns and rows of the terminal; wide and endless if it is none. COLUMNS and LINES, or
    /// 80 and 24, if it does not know them.
    [[nodiscard]] unsigned columns() const;
    [[nodiscard]] unsigned rows() const;

    [[nodiscard]] std::string styled(Style style, std::string_view text) const;
    /// Collects what a command prints, until flush() or take().
    void add(std::string_view text) { pending_ += text; }
    [[nodiscard]] std::string take();
    /// False when nobody reads any more.
    bool write(std::string_view text);
    [[nodiscard]] bool broken() const { return broken_; }
    /// Would this text scroll the terminal's content away?
    [[nodiscard]] bool is_long(std::string_view text) const;

  private:
    int fd_;
    Options::Color color_;
    bool terminal_;
    bool for_program_ = false;
    bool broken_ = false;
    std::string pending_;
};

/// The text in at most `columns` columns, "..." at its end if something is missing. Bytes of UTF-8
/// sequences are kept together; every code point is taken for one column wide.
std::string shortened(const std::string& text, std::size_t columns);

/// The text in pieces of at most `columns` columns (1 or more), counted likewise. A piece ends
/// where a name does, if it can: at a space, behind "::" or a comma.
std::vector<std::string> wrapped(std::string_view text, std::size_t columns);

} // namespace memleax
