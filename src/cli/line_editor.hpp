// SPDX-License-Identifier: GPL-3.0-or-later
/// Typing a line on a terminal: GNU readline, fed by a loop that does other things as well.
#pragma once

#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "memleax/session/crash_terminal.hpp"

namespace memleax {

/// One at a time: readline's state is global. The terminal is in readline's mode only while the
/// prompt is shown, and is as it was whenever it is not.
class LineEditor {
  public:
    /// What Tab offers in place of `word`, given what stands before it on the line. Tab offers
    /// nothing if it throws.
    using Completer =
        std::function<std::vector<std::string>(const std::string& before, const std::string& word)>;

    /// Prompts and echoes go to `fd`. `history_file` may be "".
    LineEditor(int fd, std::string history_file, Completer completer);
    ~LineEditor();
    LineEditor(const LineEditor&) = delete;
    LineEditor& operator=(const LineEditor&) = delete;

    void show(const std::string& prompt);
    /// The screen's line is empty then. What was typed of an unfinished line comes back with the
    /// same prompt.
    void hide();
    [[nodiscard]] bool is_shown() const { return shown_; }
    /// To be called when stdin is readable and the prompt is shown.
    void read_input();
    struct Line {
        std::optional<std::string> text; ///< nothing: end of input
    };
    /// The line that read_input() has completed; the prompt is hidden then.
    std::optional<Line> take_line();

    /// Is there something on the line?
    [[nodiscard]] static bool has_text();
    /// The line stays on the screen, as the one after it begins.
    void cancel_line();
    /// Before and after something else is printed: the line gets out of the way and comes back.
    void get_out_of_the_way();
    void come_back();
    void resize();

    /// For Tab's second meaning in one argument: names of files.
    static std::vector<std::string> file_names(const std::string& word);

  private:
    static void on_line(char* line);
    static char** complete(const char* text, int start, int end);
    static LineEditor* the_editor;

    std::FILE* out_;
    std::string history_file_;
    Completer completer_;
    std::vector<std::string> matches_;
    std::deque<Line> lines_;
    /// Gives the terminal back.
    void remove();

    CrashTerminal usual_;
    std::string prompt_;
    std::string unfinished_; ///< what was typed when the prompt was hidden
    int unfinished_cursor_ = 0;
    bool shown_ = false;
};

/// $XDG_STATE_HOME/memleax/history, in ~/.local/state if that is not set (XDG Base Directory
/// Specification 0.8); "" if there is no home. Folders are made.
std::string history_path();

} // namespace memleax
