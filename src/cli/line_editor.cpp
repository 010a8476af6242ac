// SPDX-License-Identifier: GPL-3.0-or-later
#include "line_editor.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <system_error>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <readline/history.h>
#include <readline/readline.h>

#include "memleax/base/log.hpp"
#include "memleax/base/output_wait.hpp"
#include "memleax/base/thrown_text.hpp"

namespace memleax {

namespace {
constexpr int kHistoryLines = 1000;
}

LineEditor* LineEditor::the_editor = nullptr;

LineEditor::LineEditor(int fd, std::string history_file, Completer completer)
    : out_(fdopen(fcntl(fd, F_DUPFD_CLOEXEC, 3), "w")), history_file_(std::move(history_file)),
      completer_(std::move(completer)) {
    the_editor = this;
    // The session reads the signals, from a descriptor.
    rl_catch_signals = 0;
    rl_catch_sigwinch = 0;
    rl_change_environment = 0;
    rl_outstream = out_ != nullptr ? out_ : stdout;
    rl_readline_name = "memleax";
    rl_attempted_completion_function = complete;
    // Not those of C programs: ids, globs and paths are words.
    rl_basic_word_break_characters = " \t";
    // Either would wait for a key, and the session for both.
    rl_completion_query_items = 0;
    rl_variable_bind("page-completions", "off");
    using_history();
    stifle_history(kHistoryLines);
    if (!history_file_.empty()) {
        read_history(history_file_.c_str());
    }
}

LineEditor::~LineEditor() {
    hide();
    if (!history_file_.empty()) {
        const mode_t before = umask(077); // commands may name what nobody else is to know
        write_history(history_file_.c_str());
        umask(before);
    }
    the_editor = nullptr;
    if (out_ != nullptr) {
        rl_outstream = stdout;
        std::fclose(out_);
    }
}

void LineEditor::show(const std::string& prompt) {
    const OutputWait wait;
    if (shown_) {
        return;
    }
    shown_ = true;
    if (tcgetattr(STDIN_FILENO, &usual_.mode) == 0) {
        usual_.fd = fileno(rl_outstream);
        const char* paste = rl_variable_value("enable-bracketed-paste");
        usual_.farewell =
            paste != nullptr && std::strcmp(paste, "on") == 0 ? "\x1b[?2004l\r\n" : "\r\n";
        set_crash_terminal(&usual_);
    }
    rl_callback_handler_install(prompt.c_str(), on_line);
    if (prompt == prompt_ && !unfinished_.empty()) {
        rl_insert_text(unfinished_.c_str());
        rl_point = unfinished_cursor_;
        rl_redisplay();
    }
    prompt_ = prompt;
    unfinished_.clear();
}

void LineEditor::hide() {
    const OutputWait wait;
    if (!shown_) {
        return;
    }
    rl_callback_sigcleanup(); // a search or a numeric argument may have begun
    unfinished_.assign(rl_line_buffer, static_cast<std::size_t>(rl_end));
    unfinished_cursor_ = rl_point;
    rl_clear_visible_line();
    std::fflush(rl_outstream);
    remove();
}

void LineEditor::remove() {
    const OutputWait wait;
    shown_ = false;
    rl_callback_handler_remove();
    std::fflush(rl_outstream);
    set_crash_terminal(nullptr);
}

void LineEditor::read_input() {
    const OutputWait wait;
    rl_callback_read_char();
}

void LineEditor::on_line(char* line) {
    LineEditor& self = *the_editor;
    // What the line does may print, or run a program: not in readline's terminal mode.
    self.remove();
    if (line == nullptr) {
        std::fputc('\n', rl_outstream);
        std::fflush(rl_outstream);
        self.lines_.push_back({});
        return;
    }
    if (*line != '\0') {
        const HIST_ENTRY* last =
            history_length > 0 ? history_get(history_base + history_length - 1) : nullptr;
        if (last == nullptr || std::strcmp(last->line, line) != 0) {
            add_history(line);
        }
    }
    self.lines_.push_back({line});
    std::free(line);
}

std::optional<LineEditor::Line> LineEditor::take_line() {
    if (lines_.empty()) {
        return std::nullopt;
    }
    Line line = std::move(lines_.front());
    lines_.pop_front();
    return line;
}

bool LineEditor::has_text() {
    return rl_end > 0;
}

void LineEditor::cancel_line() {
    const OutputWait wait;
    std::fputs("^C", rl_outstream);
    rl_free_line_state();
    rl_callback_sigcleanup(); // a search or a numeric argument may have begun
    rl_replace_line("", 1);
    rl_crlf();
    rl_on_new_line();
    rl_redisplay();
}

void LineEditor::get_out_of_the_way() {
    const OutputWait wait;
    if (shown_) {
        rl_clear_visible_line();
        std::fflush(rl_outstream);
    }
}

void LineEditor::come_back() {
    const OutputWait wait;
    if (shown_) {
        rl_on_new_line();
        rl_redisplay();
    }
}

void LineEditor::resize() {
    const OutputWait wait;
    if (shown_) {
        rl_resize_terminal();
    } else {
        rl_reset_screen_size();
    }
}

std::vector<std::string> LineEditor::file_names(const std::string& word) {
    std::vector<std::string> names;
    for (int state = 0;; state = 1) {
        char* name = rl_filename_completion_function(word.c_str(), state);
        if (name == nullptr) {
            return names;
        }
        names.emplace_back(name);
        std::free(name);
    }
}

char** LineEditor::complete(const char* text, int start, int /*end*/) {
    rl_attempted_completion_over = 1; // no file names where nobody asked for one
    LineEditor& self = *the_editor;
    try {
        self.matches_ =
            self.completer_(std::string(rl_line_buffer, static_cast<std::size_t>(start)), text);
    } catch (const std::exception& broken) { // a bug of ours; and the caller is written in C
        self.matches_.clear();
        log_error("{}", thrown_text(broken));
    }
    // A folder's name is not complete: no blank behind it.
    std::error_code ignored; // links that point to each other, a name that is too long, ...
    if (self.matches_.size() == 1 && std::filesystem::is_directory(self.matches_[0], ignored)) {
        rl_completion_append_character = '/';
    } else {
        rl_completion_append_character = ' ';
    }
    return rl_completion_matches(text, [](const char* word, int state) -> char* {
        static std::size_t next = 0;
        if (state == 0) {
            next = 0;
        }
        const auto& matches = the_editor->matches_;
        while (next < matches.size()) {
            const std::string& match = matches[next++];
            if (match.starts_with(word)) {
                return strdup(match.c_str());
            }
        }
        return nullptr;
    });
}

std::string history_path() {
    const char* state = std::getenv("XDG_STATE_HOME");
    const char* home = std::getenv("HOME");
    std::filesystem::path folder;
    if (state != nullptr && *state == '/') { // a relative one is to be ignored
        folder = state;
    } else if (home != nullptr && *home == '/') {
        folder = std::filesystem::path(home) / ".local" / "state";
    } else {
        return {};
    }
    folder /= "memleax";
    std::error_code error;
    std::filesystem::create_directories(folder, error);
    return error ? std::string() : (folder / "history").string();
}

} // namespace memleax
