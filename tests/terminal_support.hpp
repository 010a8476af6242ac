// SPDX-License-Identifier: GPL-3.0-or-later
/// A program on a terminal, and somebody who types and looks.
///
/// Nothing waits by sleeping: every wait is for text, up to a deadline (child_process_support.hpp);
/// past it the test fails with what was seen so far.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "child_process_support.hpp"
#include "screen_support.hpp"

namespace memleax::testing {

class Terminal {
  public:
    struct Size {
        unsigned short rows = 24;
        unsigned short columns = 100;
    };
    /// The program leads a session of its own, whose terminal is this one: its stdin, stdout and
    /// stderr. `environment` is added to that of the test, which is made one of an xterm.
    Terminal(const std::vector<std::string>& command, const Environment& environment = {},
             Size size = {24, 100});
    Terminal(const Terminal&) = delete;
    Terminal& operator=(const Terminal&) = delete;
    /// Kills the program, if it is still there.
    ~Terminal();

    [[nodiscard]] pid_t pid() const { return pid_; }
    void type(const std::string& keys) const;
    void resize(Size size);
    void signal(int number) const;
    /// Closes it, as a network connection that breaks.
    void hang_up() { master_.reset(); }

    /// Reads until this text comes, behind what was expected before; returns what came before it.
    /// Colours, other escape sequences and carriage returns are left out.
    std::string expect(const std::string& text);
    /// Reads until the screen looks as it should.
    void expect_screen(const std::string& what, const std::function<bool(const Screen&)>& looks);
    /// Reads until the cursor stands behind exactly this, on its line.
    void expect_cursor_after(const std::string& text);

    /// Reads to the end of the output, and reaps. The wait status.
    int wait_for_end();

    /// All that came, with and without escape sequences and carriage returns.
    [[nodiscard]] const std::string& raw() const { return raw_; }
    [[nodiscard]] const std::string& text() const { return plain_; }
    [[nodiscard]] const Screen& screen() const { return screen_; }
    /// Is the terminal in its usual mode (lines, echo)? So it has to be when a program has gone.
    [[nodiscard]] bool is_cooked() const;

  private:
    /// False at the end of the output.
    bool read_some(std::chrono::steady_clock::time_point deadline);
    void add(std::string_view bytes);
    [[nodiscard]] std::string state() const;

    std::string name_;
    Screen screen_;
    ScopedFd master_;
    ScopedFd slave_; ///< ours: the terminal's modes can be read when the program has gone
    pid_t pid_ = -1;
    bool reaped_ = false;
    int status_ = 0;
    std::string raw_;
    std::string plain_;
    std::string escape_;
    std::size_t taken_ = 0; ///< of plain_, by expect()
};

} // namespace memleax::testing
