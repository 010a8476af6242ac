// SPDX-License-Identifier: GPL-3.0-or-later
#include "completion.hpp"

#include <set>
#include <sstream>

#include <fmt/format.h>

#include "format_option.hpp"
#include "line_editor.hpp"
#include "memleax/base/printable.hpp"
#include "option_values.hpp"

namespace memleax {

namespace {

std::vector<std::string> command_names() {
    std::vector<std::string> names;
    for (const Command& command : commands()) {
        names.emplace_back(command.name);
    }
    return names;
}

std::vector<std::string> watchable_names() {
    std::vector<std::string> names;
    for (const Command& command : commands()) {
        if (command.again == Again::by_watch) {
            names.emplace_back(command.name);
        }
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

std::vector<std::string> mark_names(CommandContext& context) {
    std::vector<std::string> names;
    for (const Mark& mark : context.marks()) {
        names.push_back(mark.name);
    }
    return names;
}

/// Of all call stacks, as StackFilter compares them: without parameters, and those that have no
/// blanks. Modules, too.
std::vector<std::string> function_names(Session& session) {
    std::set<std::string> names{"clear"};
    for (const StackSnapshot& stack : session.tracker().snapshot(session.process_time()).stacks) {
        for (const SourceFrame& frame : session.names().resolve(stack.id)) {
            names.insert(frame.module);
            names.insert(frame.function.substr(0, frame.function.find('(')));
        }
    }
    std::erase_if(names, [](const std::string& name) {
        return name.empty() || printable(name) != name ||
               name.find_first_of(" \t'\"\\") != std::string::npos;
    });
    return {names.begin(), names.end()};
}

std::vector<std::string> complete_words(CommandContext& context, std::vector<std::string> words,
                                        const std::string& word) {
    Session& session = context.session;
    if (words.empty()) {
        return command_names();
    }
    session.bring_up_to_date();
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
    case Completion::command_line:
        words.erase(words.begin());
        if (!words.empty() && duration(words[0])) {
            words.erase(words.begin());
        }
        return words.empty() ? watchable_names() : complete_words(context, std::move(words), word);
    case Completion::functions:
        return words.size() == 1 ? function_names(session) : std::vector<std::string>{};
    case Completion::intervals:
        return words.size() == 1 ? std::vector<std::string>{"new", "stop", "drop", "clear"}
                                 : std::vector<std::string>{};
    case Completion::marks:
        return words.size() == 1 ? mark_names(context) : std::vector<std::string>{};
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
        return words.back() == "by" ? std::vector<std::string>{"bytes",    "blocks", "rate",  "age",
                                                               "function", "line",   "module"}
                                    : std::vector<std::string>{"by"};
    case Completion::heap:
        return words.back() == "by" ? std::vector<std::string>{"type", "size", "stack", "holder"}
                                    : std::vector<std::string>{"by"};
    case Completion::format_then_file:
        return words.size() == 1 ? format_names() : LineEditor::file_names(word);
    case Completion::file:
        return LineEditor::file_names(word);
    }
    return {};
}

} // namespace

std::vector<std::string> complete(CommandContext& context, const std::string& before,
                                  const std::string& word) {
    std::istringstream stream(before);
    std::vector<std::string> words;
    for (std::string each; stream >> each;) {
        words.push_back(each);
    }
    return complete_words(context, std::move(words), word);
}

} // namespace memleax
