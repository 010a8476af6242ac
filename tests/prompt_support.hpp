// SPDX-License-Identifier: GPL-3.0-or-later
/// memleax's prompt on a terminal, with a fixture that it watches.
#pragma once

#include <string>
#include <vector>

#include "elf_support.hpp"
#include "process_support.hpp"
#include "terminal_support.hpp"

namespace memleax::testing {

inline constexpr const char* kPrompt = "(memleax) ";

struct PromptOptions {
    std::vector<std::string> arguments{"-e", "1000"}; ///< besides the PID
    Environment environment{};
    Terminal::Size size{24, 100};
};

class PromptOnTerminal {
  public:
    /// Starts both, and waits for the prompt.
    explicit PromptOnTerminal(const std::string& fixture, const PromptOptions& options = {});
    /// With a fixture that somebody else keeps.
    PromptOnTerminal(pid_t target, const PromptOptions& options);

    /// Types the line, and returns what comes until there is a prompt again.
    std::string run(const std::string& line);
    /// The next prompt comes.
    void expect_prompt() { terminal.expect(kPrompt); }
    /// Quits by its command; the wait status.
    int quit();
    [[nodiscard]] std::string history() const { return folder.file("memleax/history"); }

    test::TemporaryFolder folder; ///< of the state
    std::optional<Fixture> fixture;
    Terminal terminal;
};

} // namespace memleax::testing
