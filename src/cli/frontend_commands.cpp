// SPDX-License-Identifier: GPL-3.0-or-later
// Running the commands that have come, and the programs that they want to run.
#include "frontend.hpp"

#include <cstdlib>

#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/log.hpp"

namespace memleax {

namespace {

constexpr const char* kPrompt = "(memleax) ";
constexpr const char* kQuestion = "Let go of the target and quit? (y or n) ";

/// How often a program that has the terminal is looked at, in case it has stopped itself.
constexpr double kChildLookS = 0.5;

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

} // namespace memleax
