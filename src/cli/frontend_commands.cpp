// SPDX-License-Identifier: GPL-3.0-or-later
// Running the commands that have come, and the programs that they want to run.
#include "frontend.hpp"

#include <algorithm>
#include <cstdlib>
#include <utility>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/base/output_wait.hpp"

namespace memleax {

namespace {

constexpr const char* kPrompt = "(memleax) ";

/// How often a program that has the terminal is looked at, in case it has stopped itself.
constexpr double kChildLookS = 0.5;

/// A file with this text, at its begin; -1 if that cannot be.
int file_with(const std::string& text) {
    const int file = memfd_create("memleax", MFD_CLOEXEC);
    if (file >= 0 && write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size()) &&
        lseek(file, 0, SEEK_SET) == 0) {
        return file;
    }
    if (file >= 0) {
        close(file);
    }
    return -1;
}

} // namespace

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
    if (editor_ && !leaving_ && (question_ || !is_waiting())) {
        editor_->show(question_ ? question_->text : kPrompt);
    }
    watch_terminal();
}

void Frontend::print_log() {
    const std::string text = log_ && !holds_output() ? log_->take() : "";
    if (text.empty()) {
        return;
    }
    before_output();
    write_and_wait(STDERR_FILENO, text.data(), text.size());
    after_output();
}

void Frontend::run_line(const QueuedLine& line) {
    if (progress_) {
        progress_->erase();
    }
    depth_ = line.depth;
    run_and_show([this, &line] {
        PipedLine piped = split_pipe(line.text);
        const std::string word = command_word(line.text);
        if (piped.filter && !word.empty() && find_command(word).goes_into_pipe()) {
            run_piped(piped);
        } else {
            run_command(context_, line.text);
        }
    });
}

void Frontend::run_and_show(const std::function<void()>& action) {
    const std::string problem = problem_of(action);
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

void Frontend::run_piped(const PipedLine& piped) {
    {
        const Console::ForProgram guard(console_);
        run_command(context_, piped.line);
    }
    // A file, not a pipe: a program that ends early leaves nobody behind who writes.
    const int file = file_with(console_.take());
    if (file < 0) {
        throw CommandError(Error("cannot keep the output for the shell", errno).message());
    }
    run_program({"/bin/sh", "-c", *piped.filter}, file);
    filters_ = true;
}

void Frontend::page(const std::string& text) {
    const char* pager = std::getenv("PAGER");
    const std::string command = pager != nullptr ? pager : "less -FRX";
    const int file = command.empty() || command == "cat" ? -1 : file_with(text);
    if (file < 0) {
        console_.write(text);
        return;
    }
    try {
        // If there is no such pager, cat does.
        run_program({"/bin/sh", "-c", command + " || cat"}, file);
    } catch (const CommandError&) { // no program can be run
        console_.write(text);
    }
}

void Frontend::run_program(const std::vector<std::string>& words, int input_fd) {
    auto child = ChildProgram::start(words, {input_fd, console_.fd()}, session_.inherited());
    if (!child) {
        throw CommandError(child.error().message());
    }
    child_.emplace(*std::move(child));
    child_is_older_ = false;
    filters_ = false;
    watch_fd(child_->fd());
    child_timer_.emplace(kChildLookS);
    watch_fd(child_timer_->fd());
    hold_log();
}

void Frontend::hold_log() {
    if (log_) {
        unwatch_fd(log_->fd()); // it keeps what comes until the terminal is ours again
    }
}

void Frontend::release_log() {
    if (log_) {
        watch_fd(log_->fd());
    }
}

void Frontend::on_child_end() {
    unwatch_fd(child_->fd());
    const int status = child_->reap();
    child_.reset();
    child_timer_.reset();
    release_log();
    if (isatty(STDIN_FILENO) == 1) {
        tcsetpgrp(STDIN_FILENO, getpgrp()); // a shell with job control may have kept the terminal
    }
    if (filters_) {
        return; // grep that finds nothing, say
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

void Frontend::wait_for(double seconds) {
    if (session_.phase() == Session::Phase::left || target_has_ended()) {
        return;
    }
    wait_ = std::make_unique<Timer>(seconds);
    watch_fd(wait_->fd());
}

void Frontend::wait_until(std::function<bool()> is_over, const std::string& otherwise) {
    constexpr double kLookEachS = 0.02;
    wait_for(kLookEachS);
    if (wait_) {
        awaited_ = Awaited{std::move(is_over), otherwise};
    } else { // there is nobody to wait for
        console_.add(otherwise);
    }
}

void Frontend::on_wait() {
    wait_->acknowledge();
    bool is_over = true;
    if (awaited_) {
        run_and_show([&] { is_over = awaited_->is_over(); });
    }
    if (is_over) {
        awaited_.reset();
        end_wait();
    }
}

void Frontend::end_wait() {
    wait_.reset(); // epoll(7) forgets what is closed
    if (awaited_) {
        show_result(std::exchange(awaited_, std::nullopt)->otherwise);
    }
}

bool Frontend::target_has_ended() const {
    const auto all = session_.processes().all();
    return std::all_of(all.begin(), all.end(), [](const ProcessAccount* process) {
        return process->facts().ended.has_value();
    });
}

void Frontend::watch(const std::string& line, double period_s) {
    if (!editor_ || leaving_) {
        throw CommandError("watch needs a terminal; a script can 'wait'");
    }
    run_command(context_, line); // if it is wrong, that is all
    const std::string text = console_.take();
    screen_ = std::make_unique<WatchScreen>(console_, line, period_s);
    watch_fd(screen_->timer().fd());
    hold_log();
    screen_->draw(text);
}

void Frontend::draw_screen() {
    // A mark has gone with its process, say.
    const std::string problem = problem_of([this] { run_command(context_, screen_->line()); });
    screen_->draw(console_.take() + (problem.empty() ? "" : problem + "\n"));
}

void Frontend::end_screen() {
    if (screen_) {
        screen_.reset();
        release_log();
    }
}

void Frontend::when_confirmed(const std::string& question, std::function<void()> action) {
    if (editor_ && depth_ == 0 && !leaving_) {
        question_ = {question + " (y or n) ", std::move(action)};
    } else {
        action();
    }
}

} // namespace memleax
