// SPDX-License-Identifier: GPL-3.0-or-later
/// The words of a command, and what they mean.
#pragma once

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "memleax/base/types.hpp"

namespace memleax {

/// What is wrong with a command, in a sentence that says what to type instead.
class CommandError : public std::runtime_error {
  public:
    using std::runtime_error::runtime_error;
};

/// Words are separated by blanks; '...', "..." and backslashes keep them together, as in a shell.
/// Throws CommandError if a quote is open at the end.
std::vector<std::string> split_words(std::string_view line);

/// A line, and the shell command behind its first '|' outside of quotes, if there is one.
struct PipedLine {
    std::string line;
    std::optional<std::string> filter;
};
PipedLine split_pipe(const std::string& line);

/// The arguments of one command, taken one after the other.
class Arguments {
  public:
    Arguments(std::string usage, std::string rest, std::vector<std::string> words)
        : usage_(std::move(usage)), rest_(std::move(rest)), words_(std::move(words)) {}

    [[nodiscard]] bool empty() const { return next_ == words_.size(); }
    [[nodiscard]] const std::string& peek() const { return words_[next_]; }
    /// The next word. Throws, naming `what` is missing, if there is none.
    std::string word(const char* what);
    /// The next word as a whole number from `min` to `max`.
    std::uint64_t whole(const char* what, std::uint64_t min, std::uint64_t max);
    /// The next word as a time above 0, in seconds.
    double seconds(const char* what);
    /// The next word as an address, with or without 0x.
    RemoteAddr address();
    /// Is the next word this one? Then it is taken.
    bool take(std::string_view word);
    /// Throws if there are words left.
    void done() const;
    /// All that was typed behind the command, as it is.
    [[nodiscard]] const std::string& rest() const { return rest_; }
    /// "message; usage: stats [N]"
    [[nodiscard]] CommandError wrong(const std::string& message) const;

  private:
    std::string usage_;
    std::string rest_;
    std::vector<std::string> words_;
    std::size_t next_ = 0;
};

} // namespace memleax
