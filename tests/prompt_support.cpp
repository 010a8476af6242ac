// SPDX-License-Identifier: GPL-3.0-or-later
#include "prompt_support.hpp"

namespace memleax::testing {

namespace {

std::vector<std::string> command_for(pid_t target, const PromptOptions& options) {
    std::vector<std::string> command = memleax_command();
    command.insert(command.end(), options.arguments.begin(), options.arguments.end());
    command.push_back(std::to_string(target));
    return command;
}

Environment environment_with(const std::string& state, const PromptOptions& options) {
    Environment environment = options.environment;
    environment.emplace("XDG_STATE_HOME", state);
    return environment;
}

} // namespace

PromptOnTerminal::PromptOnTerminal(const std::string& name, const PromptOptions& options)
    : fixture(std::in_place, name),
      terminal(command_for(fixture->pid(), options), environment_with(folder.file(""), options),
               options.size) {
    expect_prompt();
}

PromptOnTerminal::PromptOnTerminal(pid_t target, const PromptOptions& options)
    : terminal(command_for(target, options), environment_with(folder.file(""), options),
               options.size) {
    expect_prompt();
}

std::string PromptOnTerminal::run(const std::string& line) {
    terminal.type(line + "\r");
    terminal.expect(line + "\n");
    return terminal.expect(kPrompt);
}

int PromptOnTerminal::quit() {
    terminal.type("quit\r");
    return terminal.wait_for_end();
}

} // namespace memleax::testing
