// SPDX-License-Identifier: GPL-3.0-or-later
#include "frontend.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>

#include <fmt/format.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "completion.hpp"
#include "memleax/log.hpp"
#include "memleax/program.hpp"
#include "memleax/report_writer.hpp"

namespace memleax {

namespace {

constexpr const char* kPrompt = "(memleax) ";
constexpr const char* kQuestion = "Let go of the target and quit? (y or n) ";

/// How often a program that has the terminal is looked at, in case it has stopped itself.
constexpr double kChildLookS = 0.5;

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

} // namespace

Frontend::Frontend(Session& session, Input input)
    : session_(session), input_(input),
      console_(console_fd(session.options()), session.options().color),
      context_{session, console_, static_cast<CommandHost&>(*this)},
      events_(epoll_create1(EPOLL_CLOEXEC)) {}

Frontend::~Frontend() {
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
    const Options& options = session_.options();
    if (ProgressLine::wanted(options, input_ != Input::none)) {
        progress_.emplace(session_);
        watch_fd(progress_->timer_fd());
    }
    if (options.interval_s) {
        periodic_.emplace(session_, console_);
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
                return complete(session_, before, word);
            });
        watch_fd(STDIN_FILENO);
    } else if (input_ == Input::stream && !watch_fd(STDIN_FILENO)) {
        while (!reader_.at_end()) { // a regular file is always ready, and epoll does not take it
            read_stream();
        }
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
}

void Frontend::on_typed(const std::string& line) {
    if (asking_) {
        asking_ = false;
        if (!line.empty() && (line[0] == 'y' || line[0] == 'Y')) {
            session_.end("user");
        }
        return;
    }
    const bool blank = line.find_first_not_of(" \t") == std::string::npos;
    if (!blank) {
        last_line_ = line;
    }
    const std::string word = command_word(last_line_);
    try {
        if (word.empty() || (blank && !find_command(word).repeats)) {
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
    if (child_) {
        periodic_->skip();
        return true;
    }
    before_output();
    const bool more = periodic_->on_timer();
    after_output();
    return more;
}

void Frontend::run_queue() {
    if (running_ || !started_) {
        return;
    }
    running_ = true;
    while (!is_waiting()) {
        // Which one may change with each command.
        auto& lines = leaving_ ? last_commands_ : queue_;
        if (lines.empty()) {
            break;
        }
        const QueuedLine line = std::move(lines.front());
        lines.pop_front();
        run_line(line);
    }
    running_ = false;
    // The end of a pipe of commands is the end, as it is for a shell.
    if (input_ == Input::stream && reader_.at_end() && queue_.empty() && !is_waiting()) {
        session_.end("user");
    }
    ask_again();
}

void Frontend::ask_again() {
    print_log();
    if (editor_ && !is_waiting() && !leaving_) {
        editor_->show(asking_ ? kQuestion : kPrompt);
    }
}

void Frontend::print_log() {
    const std::string text = log_ && !child_ ? log_->take() : "";
    if (text.empty()) {
        return;
    }
    before_output();
    [[maybe_unused]] const auto ignored = write(STDERR_FILENO, text.data(), text.size());
    after_output();
}

void Frontend::run_line(const QueuedLine& line) {
    if (progress_) {
        progress_->erase();
    }
    std::string problem;
    try {
        depth_ = line.depth;
        run_command(context_, line.text);
    } catch (const CommandError& wrong) {
        problem = wrong.what();
    }
    show_result(console_.take());
    if (!problem.empty()) {
        log_error("{}", problem);
    }
}

void Frontend::show_result(const std::string& text) {
    if (editor_ && !is_waiting() && console_.is_long(text)) {
        page(text);
    } else {
        console_.write(text);
    }
}

void Frontend::page(const std::string& text) {
    const char* pager = std::getenv("PAGER");
    const std::string command = pager != nullptr ? pager : "less -FRX";
    const int file =
        command.empty() || command == "cat" ? -1 : memfd_create("memleax", MFD_CLOEXEC);
    if (file < 0 || write(file, text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
        if (file >= 0) {
            close(file);
        }
        console_.write(text);
        return;
    }
    lseek(file, 0, SEEK_SET);
    try {
        // If there is no such pager, cat does.
        run_program({"/bin/sh", "-c", command + " || cat"}, file);
    } catch (const CommandError&) { // no program can be run
        console_.write(text);
    }
}

void Frontend::run_program(const std::vector<std::string>& words, int input_fd) {
    auto child = ChildProgram::start(words, input_fd, session_.inherited());
    if (!child) {
        throw CommandError(child.error().message());
    }
    child_.emplace(*std::move(child));
    child_is_older_ = false;
    watch_fd(child_->fd());
    child_timer_.emplace(kChildLookS);
    watch_fd(child_timer_->fd());
    if (log_) {
        unwatch_fd(log_->fd()); // it keeps what comes until the terminal is ours again
    }
}

void Frontend::on_child_end() {
    unwatch_fd(child_->fd());
    const int status = child_->reap();
    child_.reset();
    child_timer_.reset();
    if (log_) {
        watch_fd(log_->fd());
    }
    if (isatty(STDIN_FILENO) == 1) {
        tcsetpgrp(STDIN_FILENO, getpgrp()); // a shell with job control may have kept the terminal
    }
    if (WIFSIGNALED(status)) {
        log_warning("the program was ended by signal {}", WTERMSIG(status));
    } else if (WEXITSTATUS(status) != 0) {
        log_warning("the program ended with status {}", WEXITSTATUS(status));
    }
}

void Frontend::run_lines(std::vector<std::string> lines, const std::string& from) {
    constexpr unsigned kDeepest = 20;
    auto& queue = leaving_ ? last_commands_ : queue_;
    if (depth_ == kDeepest) {
        // What else those files say is not run either.
        std::erase_if(queue, [](const QueuedLine& line) { return line.depth > 0; });
        throw CommandError(fmt::format(
            "{}: files source each other {} deep; does it source itself?", from, kDeepest));
    }
    for (auto line = lines.rbegin(); line != lines.rend(); ++line) {
        queue.push_front({std::move(*line), depth_ + 1});
    }
}

void Frontend::on_leaving() {
    leaving_ = true;
    // Whatever comes last, a report for one, begins on an empty line.
    if (editor_) {
        editor_->hide();
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
    for (const std::string& line : session_.options().commands) {
        last_commands_.push_back({line});
    }
}

bool Frontend::busy() {
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
    if (!editor_ || !editor_->is_shown()) {
        return false;
    }
    const bool typed = LineEditor::has_text();
    interrupts_ = typed ? 1 : interrupts_ + 1;
    if (asking_) {
        return false;
    }
    if (!typed && interrupts_ >= 2) {
        asking_ = true;
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

int run_program(const Options& options, const Inherited& inherited) {
    auto session = Session::open(options, inherited);
    if (!session) {
        log_error("{}", session.error().message());
        return 1;
    }
    const bool terminal = isatty(STDIN_FILENO) == 1;
    bool interactive = options.interactive == Options::Interactive::always;
    if (options.interactive == Options::Interactive::automatic) {
        // In the background (memleax PID &) reading from the terminal would stop us.
        interactive = terminal && isatty(STDOUT_FILENO) == 1 && !options.time_s &&
                      !options.interval_s && options.command.empty() &&
                      tcgetpgrp(STDIN_FILENO) == getpgrp();
    }
    const Frontend::Input input = !interactive ? Frontend::Input::none
                                  : terminal   ? Frontend::Input::terminal
                                               : Frontend::Input::stream;
    Frontend frontend(**session, input);
    return (*session)->run(&frontend);
}

} // namespace memleax
