// SPDX-License-Identifier: GPL-3.0-or-later
#include "commands_support.hpp"

#include <iterator>
#include <sstream>
#include <stdexcept>
#include <utility>

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace memleax::testing {

namespace {

std::vector<std::string> with(std::vector<std::string> arguments, pid_t target) {
    arguments.insert(arguments.begin(), "-i");
    arguments.push_back(std::to_string(target));
    return arguments;
}

} // namespace

Commands::Commands(pid_t target, std::vector<std::string> arguments)
    : memleax_(with(std::move(arguments), target), {{"SHELL", "/bin/sh"}}) {
    memleax_.wait_until_watching();
}

Commands::Answer Commands::run(const std::string& line) {
    ++count_;
    const std::string end = fmt::format("end of answer {}", count_);
    ChildProcess& process = memleax_.process();
    process.send(line);
    // One more command, whose output and error come last.
    process.send(fmt::format("shell echo {0}; echo {0} >&2", end));
    Answer answer;
    for (auto each = process.read_line(); each != end; each = process.read_line()) {
        if (!each) {
            throw std::runtime_error("memleax has ended: " + process.errors());
        }
        answer.output += *each + "\n";
    }
    const std::size_t before = errors_;
    process.find_error_line(end);
    errors_ = process.errors().find(end, before);
    answer.error = process.errors().substr(before, errors_ - before);
    errors_ += end.size() + 1;
    return answer;
}

std::string Commands::output_of(const std::string& line) {
    const Answer answer = run(line);
    EXPECT_EQ(answer.error.find("memleax: error"), std::string::npos) << answer.error;
    return answer.output;
}

std::string Commands::error_of(const std::string& line) {
    const Answer answer = run(line);
    EXPECT_EQ(answer.output, "") << line;
    const auto at = answer.error.find("memleax: error: ");
    return at == std::string::npos ? "(none) " + answer.error
                                   : answer.error.substr(at, answer.error.find('\n', at) - at);
}

Memleax::Result Commands::quit() {
    memleax_.process().send("quit");
    return memleax_.finish();
}

std::vector<std::string> words_of_line(const std::string& text, const std::string& first) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
        std::istringstream stream(line);
        std::vector<std::string> words{std::istream_iterator<std::string>(stream), {}};
        if (!words.empty() && words[0] == first) {
            return words;
        }
    }
    return {};
}

} // namespace memleax::testing
