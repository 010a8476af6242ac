// SPDX-License-Identifier: GPL-3.0-or-later
#include "frontend.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "completion.hpp"
#include "memleax/base/log.hpp"
#include "memleax/report/report_writer.hpp"

namespace memleax {

namespace {

/// Standard output, unless a report for programs is to be the only thing there.
int console_fd(const Options& options) {
    const bool text = options.format->write == write_text;
    return text || !options.output.empty() ? STDOUT_FILENO : STDERR_FILENO;
}

const char* why_left(std::string_view reason) {
    if (reason == "target-exit") {
        return "The target has ended.";
    }
    if (reason == "limit") {
        return "The target has been let go of: a limit is reached (see -m and -c).";
    }
    return "The target has been let go of.";
}

constexpr const char* kWhetherToQuit = "Let go of the target and quit? (y or n) ";

} // namespace

Frontend::Frontend(Session& session, const Options& options, Input input)
    : session_(session), options_(options), input_(input),
      console_(console_fd(options), options.color), context_{session, console_,
                                                             static_cast<CommandHost&>(*this)},
      events_(epoll_create1(EPOLL_CLOEXEC)) {}

Frontend::~Frontend() {
    screen_.reset();
    editor_.reset();
    close(events_);
}

bool Frontend::watch_fd(int fd) {
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = fd;
    return epoll_ctl(events_, EPOLL_CTL_ADD, fd, &event) == 0;
}

void Frontend::unwatch_fd(int fd) const {
    epoll_ctl(events_, EPOLL_CTL_DEL, fd, nullptr);
}

void Frontend::on_watching() {
    waiting_ = false;
    if (started_) {
        console_.write("The target is being watched again.\n");
    } else {
        started_ = true;
        context_.memory_at_start = read_process_memory(session_.target().pid);
        start_input();
    }
    run_queue();
}

void Frontend::start_input() {
    if (ProgressLine::wanted(options_, input_ != Input::none)) {
        progress_.emplace(session_);
        watch_fd(progress_->timer_fd());
    }
    if (options_.interval_s) {
        periodic_.emplace(session_, options_, console_);
        watch_fd(periodic_->timer_fd());
    }
    if (progress_ || input_ == Input::terminal) {
        log_.emplace();
        watch_fd(log_->fd());
    }
    if (input_ == Input::terminal) {
        editor_ = std::make_unique<LineEditor>(
            console_.fd(), history_path(),
            [this](const std::string& before, const std::string& word) {
                return complete(context_, before, word);
            });
    } else if (input_ == Input::stream && !watch_fd(STDIN_FILENO)) {
        while (!reader_.at_end()) { // a regular file is always ready, and epoll does not take it
            read_stream();
        }
    }
    if (options_.live) {
        queue_.push_back({"watch stats"});
    }
}

void Frontend::on_failure(const char* message) {
    waiting_ = false;
    log_error("{}", message);
    run_queue();
}

void Frontend::on_input() {
    std::array<epoll_event, 8> ready{};
    const int count = epoll_wait(events_, ready.data(), static_cast<int>(ready.size()), 0);
    for (int i = 0; i < count; ++i) {
        const int fd = ready[static_cast<std::size_t>(i)].data.fd;
        if (child_ && fd == child_->fd()) {
            on_child_end();
        } else if (child_timer_ && fd == child_timer_->fd()) {
            child_timer_->acknowledge();
            child_->continue_if_stopped();
        } else if (log_ && fd == log_->fd()) {
            print_log();
        } else if (progress_ && fd == progress_->timer_fd()) {
            progress_->on_timer();
        } else if (periodic_ && fd == periodic_->timer_fd()) {
            const bool more = print_periodic();
            if (!more) {
                session_.end("time");
            }
        } else if (wait_ && fd == wait_->fd()) {
            on_wait();
        } else if (screen_ && fd == screen_->timer().fd()) {
            screen_->timer().acknowledge();
            draw_screen();
        } else if (fd == STDIN_FILENO && screen_) {
            WatchScreen::take_keys();
            end_screen();
        } else if (fd == STDIN_FILENO && editor_) {
            read_terminal();
        } else if (fd == STDIN_FILENO) {
            read_stream();
        }
    }
    run_queue();
    if (console_.broken()) {
        session_.end("user");
    }
}

void Frontend::read_terminal() {
    if (!editor_->is_shown()) {
        return;
    }
    interrupts_ = 0;
    editor_->read_input();
    while (const auto line = editor_->take_line()) {
        if (!line->text) {
            session_.end("user");
        } else {
            on_typed(*line->text);
        }
    }
    watch_terminal();
}

void Frontend::watch_terminal() {
    const bool wanted = editor_ && (screen_ || editor_->is_shown());
    if (wanted == std::exchange(watches_terminal_, wanted)) {
        return;
    }
    if (wanted) {
        watch_fd(STDIN_FILENO);
    } else {
        unwatch_fd(STDIN_FILENO);
    }
}

void Frontend::on_typed(const std::string& line) {
    if (question_) {
        const Question question = *std::exchange(question_, {});
        if (!line.empty() && (line[0] == 'y' || line[0] == 'Y')) {
            run_and_show(question.yes);
        }
        return;
    }
    const bool blank = line.find_first_not_of(" \t") == std::string::npos;
    if (!blank) {
        last_line_ = line;
    }
    const std::string word = command_word(last_line_);
    try {
        if (word.empty() || (blank && find_command(word).again == Again::never)) {
            return;
        }
    } catch (const CommandError&) { // is told when it runs
    }
    queue_.push_back({last_line_});
}

void Frontend::read_stream() {
    for (std::string& line : reader_.read_some(STDIN_FILENO)) {
        queue_.push_back({std::move(line)});
    }
    if (reader_.at_end()) {
        unwatch_fd(STDIN_FILENO);
    }
}

bool Frontend::print_periodic() {
    if (holds_output()) {
        periodic_->skip();
        return true;
    }
    before_output();
    const bool more = periodic_->on_timer();
    after_output();
    return more;
}

void Frontend::on_leaving() {
    leaving_ = true;
    end_wait();
    end_screen();
    // Whatever comes last, a report for one, begins on an empty line.
    if (editor_) {
        editor_->hide();
        watch_terminal();
    }
    if (progress_) {
        unwatch_fd(progress_->timer_fd());
        progress_.reset();
    }
    if (periodic_) {
        unwatch_fd(periodic_->timer_fd());
        periodic_.reset();
    }
    child_is_older_ = child_.has_value();
    for (const std::string& line : options_.commands) {
        last_commands_.push_back({line});
    }
}

bool Frontend::busy() {
    if (wait_ && target_has_ended()) {
        end_wait();
    }
    run_queue();
    return !last_commands_.empty() || is_waiting();
}

bool Frontend::on_left(const char* reason) {
    leaving_ = false;
    waiting_ = false;
    if (input_ == Input::none || (input_ == Input::stream && reader_.at_end() && queue_.empty())) {
        return false;
    }
    console_.write(
        fmt::format("{} What is known stays, for reading; 'quit' ends.\n", why_left(reason)));
    run_queue();
    return true;
}

bool Frontend::on_interrupt() {
    if (child_) {
        return true; // it has got the signal as well, and knows what to do
    }
    queue_.clear();
    last_commands_.clear();
    if (editor_ && !leaving_ && (wait_ || screen_)) {
        end_wait();
        end_screen();
        run_queue();
        return true;
    }
    end_wait();
    if (!editor_ || !editor_->is_shown()) {
        return false;
    }
    const bool typed = LineEditor::has_text();
    interrupts_ = typed ? 1 : interrupts_ + 1;
    if (question_) {
        if (question_->text == kWhetherToQuit) {
            return false;
        }
        question_.reset(); // that is no
        editor_->cancel_line();
        editor_->hide();
        run_queue();
        return true;
    }
    if (!typed && interrupts_ >= 2) {
        question_ = {kWhetherToQuit, [this] { session_.end("user"); }};
        editor_->hide();
        console_.write("\n");
        ask_again();
    } else {
        editor_->cancel_line();
    }
    return true;
}

void Frontend::on_resize() {
    if (editor_) {
        editor_->resize();
    }
    if (screen_) {
        draw_screen();
    }
}

void Frontend::before_output() {
    if (progress_) {
        progress_->erase();
    }
    if (editor_) {
        editor_->get_out_of_the_way();
    }
}

void Frontend::after_output() {
    if (editor_) {
        editor_->come_back();
    }
}

} // namespace memleax
