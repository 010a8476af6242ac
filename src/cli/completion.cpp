// SPDX-License-Identifier: GPL-3.0-or-later
#include "completion.hpp"

#include <sstream>

#include <fmt/format.h>

#include "command.hpp"
#include "format_option.hpp"
#include "line_editor.hpp"

namespace memleax {

namespace {

std::vector<std::string> command_names() {
    std::vector<std::string> names;
    for (const Command& command : commands()) {
        names.emplace_back(command.name);
    }
    return names;
}

std::vector<std::string> process_numbers(Session& session) {
    std::vector<std::string> numbers;
    for (const ProcessAccount* process : session.processes().all()) {
        numbers.push_back(fmt::format("{}", process->number()));
    }
    return numbers;
}

std::vector<std::string> stack_ids(Session& session) {
    std::vector<std::string> ids;
    for (const StackSnapshot& stack : session.tracker().snapshot(session.process_time()).stacks) {
        ids.push_back(fmt::format("{}", stack.account.id));
    }
    return ids;
}

} // namespace

std::vector<std::string> complete(Session& session, const std::string& before,
                                  const std::string& word) {
    std::istringstream stream(before);
    std::vector<std::string> words;
    for (std::string each; stream >> each;) {
        words.push_back(each);
    }
    if (words.empty()) {
        return command_names();
    }
    const Command* command = nullptr;
    try {
        command = &find_command(words[0]);
    } catch (const CommandError&) {
        return {};
    }
    switch (command->completion) {
    case Completion::none:
        return {};
    case Completion::commands:
        return words.size() == 1 ? command_names() : std::vector<std::string>{};
    case Completion::processes:
        return words.size() == 1 ? process_numbers(session) : std::vector<std::string>{};
    case Completion::stacks:
        return words.size() == 1 ? stack_ids(session) : std::vector<std::string>{};
    case Completion::stack_or_all: {
        auto ids = stack_ids(session);
        ids.emplace_back("all");
        return ids;
    }
    case Completion::stats:
        return words.back() == "by" ? std::vector<std::string>{"bytes", "blocks", "rate", "age"}
                                    : std::vector<std::string>{"by"};
    case Completion::format_then_file:
        return words.size() == 1 ? format_names() : LineEditor::file_names(word);
    case Completion::file:
        return LineEditor::file_names(word);
    }
    return {};
}

} // namespace memleax
