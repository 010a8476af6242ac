// SPDX-License-Identifier: GPL-3.0-or-later
/// `memleax -i PID < pipe`, as a test's own shell.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <sys/types.h>

#include "process_support.hpp"

namespace memleax::testing {

/// Sends commands down a pipe, and reads what each answers.
class Commands {
  public:
    explicit Commands(pid_t target, std::vector<std::string> arguments = {"-e", "1000", "-q"});

    /// What the command prints, on stdout and on stderr.
    struct Answer {
        std::string output;
        std::string error;
    };
    Answer run(const std::string& line);
    /// Of one that is right.
    std::string output_of(const std::string& line);
    /// The message of one that is wrong, and that prints nothing.
    std::string error_of(const std::string& line);
    Memleax& memleax() { return memleax_; }
    Memleax::Result quit();

  private:
    Memleax memleax_;
    int count_ = 0;
    std::size_t errors_ = 0; ///< of stderr, read by run()
};

/// The words of the first line that begins with this one.
std::vector<std::string> words_of_line(const std::string& text, const std::string& first);

} // namespace memleax::testing
