// SPDX-License-Identifier: GPL-3.0-or-later
#include "command.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

namespace memleax {

namespace {

constexpr const char* kBlanks = " \t";

constexpr std::array kCommands{
    Command{"blocks", "ID [N]", "list blocks of a call stack",
            "The N oldest of its live blocks (20 if not said): address, size, age, and the thread\n"
            "that allocated it.",
            run_blocks, Completion::stacks},
    Command{"delete", "", "forget the oldest interval",
            "Its blocks do not count as evidence any more. See also: start, stats.", run_delete},
    Command{
        "detach", "", "let go of the target",
        "The target is as it was before; the data stays, for reading. There is no way back: see\n"
        "pause for that.",
        run_detach, Completion::none, false},
    Command{"dump", "[ID...|all]", "show call stacks with their whole accounts",
            "Without an argument: the one that stats puts first.", run_dump,
            Completion::stack_or_all},
    Command{"errors", "[N|all]", "list the memory errors that were found",
            "A line for each, or error N, or all of them, with where it happened, where the block\n"
            "had been freed, if it had, and where it was allocated. Without --check only double\n"
            "frees are looked for, and the stack of the first free is not known.",
            run_errors},
    Command{
        "events", "[N|live|off]", "the last calls that mapped memory, with their stacks",
        "The N last ones (20 if not said) of mmap, munmap, mremap, brk, sbrk, shmat and shmdt, as "
        "far\n"
        "as --track has them followed; 10,000 are kept. live prints each as it happens, off ends\n"
        "that.",
        run_events},
    Command{"expire", "[SECONDS]", "show or set the age at which blocks expire",
            "Blocks that have expired stay so.", run_expire},
    Command{"help", "[COMMAND]", "explain the commands", "", run_help, Completion::commands},
    Command{
        "ignore", "[PATTERN|clear]", "hide call stacks through a function or module",
        "PATTERN is a glob, as in 'ignore libssl*' or 'ignore *::cache_*', and is compared with\n"
        "each frame's module and function. Without it: show the patterns. Nothing is lost: clear\n"
        "shows everything again.",
        run_ignore},
    Command{"list", "[N]", "show or set how many call stacks stats prints", "", run_list},
    Command{"mark", "[NAME]", "remember this moment, for since", "", run_mark, Completion::none,
            false},
    Command{"modules", "", "list the target's modules",
            "Where symbols, lines and unwind tables come from, or why not.", run_modules},
    Command{"only", "[PATTERN|clear]", "show only call stacks through a function or module",
            "As ignore, the other way round.", run_only},
    Command{"pause", "", "take all breakpoints out; see resume",
            "The target runs as if we were not there.", run_pause, Completion::none, false},
    Command{
        "process", "[N]", "show or choose the process that commands are about",
        "N is its number in 'processes'. At first it is the process that was watched first; its\n"
        "children are watched with --follow-forks.",
        run_process, Completion::processes},
    Command{"processes", "", "list the processes that are watched, or were",
            "The one that commands are about has a star; process chooses another.", run_processes},
    Command{"quit", "", "let go of the target, print the report, and end", "Ctrl-D does the same.",
            run_quit, Completion::none, false},
    Command{
        "restart", "", "begin a new interval now",
        "The earlier ones are kept, and merged as they age. A moment that matters, such as the\n"
        "begin of a load test, becomes a boundary.",
        run_restart, Completion::none, false},
    Command{"resume", "", "put the breakpoints in again",
            "Blocks from before the pause are not followed any more, as their frees may have been\n"
            "missed; they count neither as leaks nor as freed.",
            run_resume, Completion::none, false},
    Command{"save", "FORMAT FILE", "write a report of what is known now",
            "FORMAT is one of those of --format.", run_save, Completion::format_then_file, false},
    Command{"shell", "[COMMAND]", "run a shell command, or a shell",
            "The target is watched meanwhile; live lines wait.", run_shell, Completion::file},
    Command{"show", "ADDRESS", "which block is this address in?",
            "Its call stack, age and thread, and what it contains.", run_show},
    Command{"since", "[MARK]", "what has grown since a mark",
            "Without an argument: since the last mark, or since the begin.", run_since},
    Command{"source", "FILE", "run the commands in a file", "One on each line; # begins a comment.",
            run_source, Completion::file, false},
    Command{"start", "", "forget all intervals, and begin the first", "", run_start,
            Completion::none, false},
    Command{
        "stats", "[N] [by bytes|blocks|rate|age]", "one line for each call stack",
        "The N that cost most, if nothing else is said: first by the bytes a second that stay, "
        "then\n"
        "by the bytes that are live, then by the number of blocks. The verdict is one of leaking,\n"
        "growing, plateau, settled and too early, with the figures that it rests on.",
        run_stats, Completion::stats},
    Command{"status", "", "the target, the watching, and memory", "", run_status},
    Command{"stop", "", "begin no more intervals",
            "Blocks that are allocated from now on are no evidence. See also: start.", run_stop,
            Completion::none, false},
    Command{"threads", "", "list the target's threads",
            "With what each has allocated that is live.", run_threads},
};

} // namespace

std::span<const Command> commands() {
    return kCommands;
}

const Command& find_command(const std::string& name) {
    std::vector<const Command*> found;
    for (const Command& command : kCommands) {
        if (command.name == name) {
            return command;
        }
        if (command.name.starts_with(name)) {
            found.push_back(&command);
        }
    }
    if (found.size() == 1) {
        return *found[0];
    }
    if (found.empty()) {
        throw CommandError(fmt::format("there is no command '{}'; try 'help'", name));
    }
    std::string all;
    for (const Command* command : found) {
        all += fmt::format("{}{}", all.empty() ? "" : ", ", command->name);
    }
    throw CommandError(fmt::format("'{}' is ambiguous: {}", name, all));
}

std::string usage_of(const Command& command) {
    return command.arguments.empty() ? std::string(command.name)
                                     : fmt::format("{} {}", command.name, command.arguments);
}

std::string command_word(std::string_view line) {
    const auto begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos || line[begin] == '#') {
        return {};
    }
    return std::string(line.substr(begin, line.find_first_of(kBlanks, begin) - begin));
}

void run_command(CommandContext& context, const std::string& line) {
    const std::string word = command_word(line);
    if (word.empty()) {
        return;
    }
    const Command& command = find_command(word);
    const auto end = line.find(word) + word.size();
    const auto rest_begin = std::min(line.find_first_not_of(kBlanks, end), line.size());
    const std::string rest = line.substr(rest_begin);
    // The shell has its own rules for quotes.
    Arguments arguments(usage_of(command), rest,
                        command.run == run_shell ? std::vector<std::string>{} : split_words(rest));
    context.session.bring_up_to_date();
    command.run(context, arguments);
}

} // namespace memleax
