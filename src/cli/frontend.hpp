// SPDX-License-Identifier: GPL-3.0-or-later
/// What takes part in a session's loop for the user: the prompt, -x, --interval, --progress.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "child_program.hpp"
#include "command.hpp"
#include "console.hpp"
#include "line_editor.hpp"
#include "line_reader.hpp"
#include "log_pipe.hpp"
#include "periodic_stats.hpp"
#include "progress_line.hpp"
#include "timer.hpp"
#include "watch_screen.hpp"

namespace memleax {

class Frontend final : public SessionClient, private CommandHost {
  public:
    /// Where commands come from, besides -x.
    enum class Input { none, terminal, stream };
    /// `options` must outlive it.
    Frontend(Session& session, const Options& options, Input input);
    ~Frontend() override;
    Frontend(const Frontend&) = delete;
    Frontend& operator=(const Frontend&) = delete;

    int input_fd() override { return events_; }
    void on_input() override;
    void on_watching() override;
    void on_failure(const char* message) override;
    void on_leaving() override;
    bool on_left(const char* reason) override;
    bool busy() override;
    bool on_interrupt() override;
    void on_resize() override;
    bool holds_output() override { return child_ || screen_; }
    void before_output() override;
    void after_output() override;

  private:
    void run_program(const std::vector<std::string>& words, int input_fd) override;
    void run_lines(std::vector<std::string> lines, const std::string& from) override;
    void wait_for_watching() override { waiting_ = true; }
    void wait_for(double seconds) override;
    void wait_until(std::function<bool()> is_over, const std::string& otherwise) override;
    void watch(const std::string& line, double period_s) override;
    void when_confirmed(const std::string& question, std::function<void()> action) override;

    bool watch_fd(int fd);
    void unwatch_fd(int fd) const;
    void start_input();
    void read_terminal();
    /// For keys only while we read them: else one that waits would end each poll(2) at once.
    void watch_terminal();
    bool print_periodic();
    void read_stream();
    void on_typed(const std::string& line);
    void on_child_end();
    void run_queue();
    struct QueuedLine {
        std::string text;
        unsigned depth = 0; ///< of files that source each other
    };
    void run_line(const QueuedLine& line);
    /// Says what is wrong with it, if it throws.
    void run_and_show(const std::function<void()>& action);
    void run_piped(const PipedLine& piped);
    void on_wait();
    void end_wait();
    [[nodiscard]] bool target_has_ended() const;
    /// Its lines wait while somebody else has the terminal.
    void hold_log();
    void release_log();
    void draw_screen();
    void end_screen();
    void print_log();
    void show_result(const std::string& text);
    void page(const std::string& text);
    void ask_again();
    [[nodiscard]] bool is_waiting() const {
        return waiting_ || wait_ || screen_ || (question_ && !leaving_) ||
               (child_ && !(leaving_ && child_is_older_));
    }

    Session& session_;
    const Options& options_;
    Input input_;
    Console console_;
    CommandContext context_;
    std::unique_ptr<LineEditor> editor_;
    LineReader reader_;
    std::optional<ProgressLine> progress_;
    std::optional<PeriodicStats> periodic_;
    int events_ = -1; ///< epoll(7): stdin, a child, timers
    std::deque<QueuedLine> queue_;
    std::deque<QueuedLine> last_commands_; ///< those of -x, while the target is being let go of
    unsigned depth_ = 0;                   ///< of the line that runs
    std::optional<ChildProgram> child_;
    std::optional<Timer> child_timer_; ///< to look whether it has stopped
    bool child_is_older_ = false;      ///< than the leaving, which does not wait for it
    std::optional<LogPipe> log_;
    std::string last_line_;
    unsigned interrupts_ = 0; ///< Ctrl-C, without anything else between
    struct Question {
        std::string text;
        std::function<void()> yes;
    };
    std::optional<Question> question_; ///< what is typed next answers it
    std::unique_ptr<Timer> wait_;      ///< the next command waits for it
    struct Awaited {
        std::function<bool()> is_over;
        std::string otherwise; ///< what to say if it never is
    };
    std::optional<Awaited> awaited_; ///< what wait_ looks for; nothing: its time
    std::unique_ptr<WatchScreen> screen_;
    bool filters_ = false; ///< the child has what a command shows as its input
    bool watches_terminal_ = false;
    bool started_ = false;
    bool waiting_ = false; ///< until the target is watched again
    bool running_ = false; ///< a command is
    bool leaving_ = false; ///< only last_commands_ are run
};

} // namespace memleax
