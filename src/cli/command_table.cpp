// SPDX-License-Identifier: GPL-3.0-or-later
#include "command.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "memleax/base/thrown_text.hpp"

namespace memleax {

namespace {

constexpr const char* kBlanks = " \t";

constexpr std::array kCommands{
    Command{"blocks", "ID [N]", "list blocks of a call stack",
            "The N oldest of its live blocks (20 if not said): address, size, age, and the thread\n"
            "that allocated it.",
            run_blocks, Completion::stacks, Again::by_watch},
    Command{"compare", "ID", "walk a call stack by libunwind, too, at its next call",
            "Waits for a call that has this stack, walks it by memleax's own unwinder and by\n"
            "libunwind, and says that they are equal, or shows both with the first difference\n"
            "marked. Ctrl-C ends the waiting. Under the inline engine each call stack stops its\n"
            "thread once more for it.",
            run_compare, Completion::stacks, Again::never},
    Command{
        "detach", "", "let go of the target",
        "The target is as it was before; the data stays, for reading. There is no way back: see\n"
        "pause for that.",
        run_detach, Completion::none, Again::never},
    Command{"dump", "[ID...|all]", "show call stacks with their whole accounts",
            "Without an argument: the one that stats puts first.", run_dump,
            Completion::stack_or_all, Again::by_watch},
    Command{"errors", "[N|all]", "list the memory errors that were found",
            "A line for each, or error N, or all of them, with where it happened, where the block\n"
            "had been freed, if it had, and where it was allocated. Without --check only double\n"
            "frees are looked for, and the stack of the first free is not known.",
            run_errors, Completion::none, Again::by_watch},
    Command{
        "events", "[N|live|off|probes [PATTERN]]", "probes, and the last calls that mapped memory",
        "The N last ones (20 if not said) of mmap, munmap, mremap, brk, sbrk, shmat and shmdt, as "
        "far\n"
        "as --track has them followed; 10,000 are kept. live prints each as it happens, off ends\n"
        "that. Without an argument also what --probe counts. probes lists those that the modules\n"
        "have, as PROVIDER:NAME, with the operands of their arguments.",
        run_events, Completion::none, Again::by_watch},
    Command{"exit", "", "the same as quit", "", run_quit, Completion::none, Again::never},
    Command{"expire", "[TIME]", "show or set the age at which blocks expire",
            "TIME is in seconds, or has a unit: 30s, 5m, 2h. Blocks that have expired stay so.",
            run_expire},
    Command{"faults", "[N]", "page faults by call stack, with what they touched",
            "The N call stacks with the most of them (10 if not said), most last. Needs --track\n"
            "faults.",
            run_faults, Completion::none, Again::by_watch},
    Command{
        "heap", "[by type|size|stack|holder]", "what the heap consists of now",
        "The process stands still for a moment while its heap is looked at, also what is from\n"
        "before the watching. type is that of C++ objects with virtual functions; stack is where\n"
        "it was allocated, if that was watched; holder is the variable or stack that it hangs on,\n"
        "with all that would be lost without that one. Each of them has a name, as in heap1:\n"
        "'since heap1' compares it with the last one.",
        run_heap, Completion::heap, Again::never, Piped::always},
    Command{"help", "[COMMAND]", "explain the commands", "", run_help, Completion::commands,
            Again::by_watch},
    Command{
        "ignore", "[PATTERN|clear]", "hide call stacks through a function or module",
        "PATTERN is a glob, as in 'ignore libssl*' or 'ignore *::cache_*', and is compared with\n"
        "each frame's module and function. Without it: show the patterns. Nothing is lost: clear\n"
        "shows everything again.",
        run_ignore, Completion::functions},
    Command{"intervals", "[new|stop|drop|clear]", "the intervals of time that verdicts rest on",
            "Verdicts compare blocks by the interval that they were allocated in. Without an\n"
            "argument: how many there are, and from when. new begins one now, so that a moment\n"
            "that matters, such as the begin of a load test, is a boundary. stop begins no more\n"
            "ones: what is allocated from now on is no evidence; new goes on. drop forgets the\n"
            "oldest one, clear all of them: they are no evidence any more (live blocks and\n"
            "expired ones stay).",
            run_intervals, Completion::intervals, Again::never},
    Command{
        "leaks", "[N]", "look for blocks that nothing points to, now",
        "The process stands still for a moment. The N largest groups (20 if not said), by call\n"
        "stack where that is known; from then on those call stacks have the verdict lost. Where\n"
        "the heap cannot be listed (see --leak-check), these are of blocks that were watched.",
        run_leaks, Completion::none, Again::never, Piped::always},
    Command{"list", "[N]", "show or set how many rows stats prints",
            "20 at first; also those of since, heap and refs.", run_list},
    Command{"mark", "[NAME]", "remember this moment, for since", "", run_mark, Completion::none,
            Again::never},
    Command{"modules", "", "list the target's modules",
            "Where symbols, lines and unwind tables come from, or why not.", run_modules,
            Completion::none, Again::by_watch},
    Command{"only", "[PATTERN|clear]", "show only call stacks through a function or module",
            "As ignore, the other way round.", run_only, Completion::functions},
    Command{
        "pause", "", "take all breakpoints out; see resume",
        "The target runs as if we were not there. What is live then is set aside by resume, as\n"
        "nobody sees whether it is freed meanwhile; until then it can be looked at.",
        run_pause, Completion::none, Again::never},
    Command{
        "process", "[N]", "show or choose the process that commands are about",
        "N is its number in 'processes'. At first it is the process that was watched first; its\n"
        "children are watched with --follow-forks.",
        run_process, Completion::processes},
    Command{"processes", "", "list the processes that are watched, or were",
            "The one that commands are about has a star; process chooses another.", run_processes,
            Completion::none, Again::by_watch},
    Command{"quit", "", "let go of the target, print the report, and end", "Ctrl-D does the same.",
            run_quit, Completion::none, Again::never},
    Command{
        "refs", "ADDRESS", "who points to the block at this address?",
        "Variables, stacks, registers, and other blocks, when somebody looked at the heap last\n"
        "(leaks, heap); at present, if nobody has.",
        run_refs, Completion::none, Again::by_empty_line, Piped::always},
    Command{
        "resume", "", "put the breakpoints in again",
        "Blocks from before the pause are set aside, as their frees may have been missed: they\n"
        "count neither as live nor as leaks nor as freed (dump: not followed), and verdicts\n"
        "begin anew.",
        run_resume, Completion::none, Again::never},
    Command{"save", "FORMAT FILE", "write a report of what is known now",
            "FORMAT is one of those of --format.", run_save, Completion::format_then_file,
            Again::never},
    Command{"shell", "[COMMAND]", "run a shell command, or a shell",
            "The target is watched meanwhile; live lines wait. What a command prints\n"
            "that only shows something goes through a shell command as in\n"
            "'dump all | grep -c libssl'; not so list and compare.",
            run_shell, Completion::file},
    Command{"show", "ADDRESS", "which block is this address in?",
            "Its call stack, age and thread, and what it contains.", run_show, Completion::none,
            Again::by_watch},
    Command{"since", "[MARK]", "what has grown since a mark",
            "Without an argument: since the last mark, or since the begin. A MARK may be a heap's "
            "name,\n"
            "too (see heap).",
            run_since, Completion::marks, Again::by_watch},
    Command{"source", "FILE", "run the commands in a file", "One on each line; # begins a comment.",
            run_source, Completion::file, Again::never},
    Command{
        "stats", "[N] [by bytes|blocks|rate|age] [by function|line|module]",
        "one line for each call stack, or group of them",
        "The N that cost most, if nothing else is said: first by the bytes a second that stay, "
        "then\n"
        "by the bytes that are live, then by the number of blocks. The verdict is one of lost,\n"
        "leaking, growing, plateau, settled and too early, with the figures that it rests on. by "
        "function,\n"
        "line or module puts call stacks together that have it in common; ID is that of the\n"
        "first of them, the verdict that of the worst. On a narrow terminal columns are\n"
        "left out, but never the verdict, and long places go on in the next line.",
        run_stats, Completion::stats, Again::by_watch},
    Command{
        "status", "", "the target, the watching, and memory",
        "stopped: the part of the time in which its threads would have run that they were stopped\n"
        "for memleax, or waited for it, since the watching began, and just now. Fifty looks a\n"
        "second tell. Calls that are recorded without a stop are in the target's own CPU time.\n"
        "pressure: who is short of memory, the control group, the machine, or nobody: a group "
        "that\n"
        "was at its limit since the attach, or whose tasks wait for memory; a machine with less\n"
        "than 5% available, or whose tasks wait. Below it the figures, with their changes since "
        "the\n"
        "attach. File cache that nobody uses does not count as used.\n"
        "killed first: the process with the highest OOM score, of the group if it has a limit, "
        "else\n"
        "of the machine, if all of its processes can be seen.",
        run_status, Completion::none, Again::by_watch},
    Command{"threads", "", "list the target's threads",
            "With what each has allocated that is live.", run_threads, Completion::none,
            Again::by_watch},
    Command{"wait", "TIME", "go on after that time, or at the target's end",
            "For scripts: memleax -i PID < commands. TIME is in seconds, or has a unit: 30s, 5m, "
            "2h.\n"
            "Ctrl-C ends it.",
            run_wait, Completion::none, Again::never},
    Command{
        "watch", "[TIME] COMMAND", "show a command's output again and again",
        "Each two seconds, or TIME (in seconds, or with a unit: 500ms, 1m), until a key is\n"
        "pressed, as watch(1) does. Live lines wait. memleax --live PID begins with watch stats.",
        run_watch, Completion::command_line, Again::never},
    Command{
        "why", "ADDRESS|ID", "what keeps this block, or this call stack's blocks?",
        "The shortest chain of pointers from a variable, or else from a stack or register, and\n"
        "what would be lost with it. An address begins with 0x. See refs.",
        run_why, Completion::stacks, Again::by_empty_line, Piped::always},
};

/// What libmemleak calls them, and what somebody who types them here may mean.
struct OtherName {
    std::string_view name;
    std::string_view instead;
};
constexpr std::array kOtherNames{
    OtherName{"start", "'resume' watches again after a pause; 'intervals clear' begins the "
                       "evidence of verdicts anew"},
    OtherName{"stop", "'pause' takes all breakpoints out for a while, 'detach' for good; "
                      "'intervals stop' begins no more intervals"},
    OtherName{"restart",
              "'intervals new' begins an interval; 'resume' watches again after a pause"},
    OtherName{"delete", "'intervals drop' forgets the oldest interval"},
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
        for (const OtherName& other : kOtherNames) {
            if (other.name == name) {
                throw CommandError(
                    fmt::format("there is no command '{}'; {}", name, other.instead));
            }
        }
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
    // The shell has its own rules for quotes; a command that is watched splits its own.
    const bool whole = command.run == run_shell || command.run == run_watch;
    Arguments arguments(usage_of(command), rest,
                        whole ? std::vector<std::string>{} : split_words(rest));
    context.session.bring_up_to_date();
    command.run(context, arguments);
}

std::string problem_of(const std::function<void()>& action) {
    try {
        action();
    } catch (const CommandError& wrong) {
        return wrong.what();
    } catch (const std::exception& broken) {
        return thrown_text(broken);
    }
    return {};
}

} // namespace memleax
