// SPDX-License-Identifier: GPL-3.0-or-later
/// The prompt's commands. One table serves execution, help, completion, -x and the man page.
#pragma once

#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.hpp"
#include "census.hpp"
#include "console.hpp"
#include "marks.hpp"
#include "memleax/proc/process_memory.hpp"
#include "memleax/session/session.hpp"

namespace memleax {

/// What a command can have done for it once it has returned.
class CommandHost {
  public:
    virtual ~CommandHost() = default;
    /// Runs a program that gets the terminal; what comes next waits for its end. `input_fd` is
    /// its standard input and is closed, or -1 for ours.
    virtual void run_program(const std::vector<std::string>& words, int input_fd) = 0;
    /// These lines come before all others.
    virtual void run_lines(std::vector<std::string> lines, const std::string& from) = 0;
    /// The next command waits until the target is being watched again, ...
    virtual void wait_for_watching() = 0;
    /// ... or for so long; not beyond the target's end.
    virtual void wait_for(double seconds) = 0;
    /// ... or, as long, until this says that it is over; it is asked now and then, and may print.
    /// `otherwise` is printed if it never is.
    virtual void wait_until(std::function<bool()> is_over, const std::string& otherwise) = 0;
    /// Runs this line again and again, on a screen of its own, until a key is pressed. Throws
    /// CommandError where there is no terminal, or if the line is wrong.
    virtual void watch(const std::string& line, double period_s) = 0;
    /// Does it once somebody at a terminal has said yes to the question; in a script, at once.
    virtual void when_confirmed(const std::string& question, std::function<void()> action) = 0;
};

/// What commands work on, and keep from one to the next.
struct CommandContext {
    Session& session;
    Console& console;
    CommandHost& host;
    std::map<unsigned, Marks> marks_of{}; ///< by number of the process
    std::size_t stats_rows = 20;          ///< of `stats`; `list N` sets it
    ProcessMemory memory_at_start{};      ///< of the first process, when watching began
    std::uint64_t events_before = 0;      ///< at the last `status`
    MonotonicNs events_before_time{0};    ///< 0: there was none
    std::vector<Census> censuses{};       ///< in the order in which they were made

    /// Those of the process that commands are about.
    Marks& marks() { return marks_of[session.process().number()]; }
};

/// What Tab offers for a command's arguments.
enum class Completion {
    none,
    commands,
    command_line,
    functions,
    intervals,
    marks,
    processes,
    stacks,
    stack_or_all,
    stats,
    heap,
    format_then_file,
    file
};

/// What runs a command again, unasked.
enum class Again {
    never,
    by_empty_line,
    by_watch ///< it only shows something; so does an empty line
};

/// Does its output go through a shell's command, as in `stats | head`?
enum class Piped {
    by_watch, ///< if watch runs it
    always,
};

struct Command {
    std::string_view name;
    std::string_view arguments; ///< "[N] [by bytes|blocks|rate|age]"
    std::string_view summary;   ///< one line, without a full stop
    std::string_view help;      ///< what else there is to say; may be ""
    void (*run)(CommandContext& context, Arguments& arguments);
    Completion completion = Completion::none;
    Again again = Again::by_empty_line;
    Piped piped = Piped::by_watch;

    /// All that it prints is there once it has run, and is all that it is for.
    [[nodiscard]] bool goes_into_pipe() const {
        return piped == Piped::always || again == Again::by_watch;
    }
};

/// Sorted as `help` shows them.
std::span<const Command> commands();
/// By its name or an unambiguous beginning of it. Throws CommandError with what there is.
const Command& find_command(const std::string& name);
/// The first word of a line; "" if there is nothing but blanks or a comment.
std::string command_word(std::string_view line);
/// Runs one line. Throws CommandError.
void run_command(CommandContext& context, const std::string& line);
/// Runs it, and says what is wrong if it throws; "" if it does not. A bug in one command is said to
/// be one, and does not cost the session.
std::string problem_of(const std::function<void()>& action);
/// "stats [N] [by bytes|blocks|rate|age]"
std::string usage_of(const Command& command);

/// Throws, saying what to do instead, if nobody is watching.
void need_watching(const CommandContext& context);

// One for each command, in commands/*.cpp. Each throws CommandError.
void run_help(CommandContext& context, Arguments& arguments);
void run_status(CommandContext& context, Arguments& arguments);
void run_stats(CommandContext& context, Arguments& arguments);
void run_dump(CommandContext& context, Arguments& arguments);
void run_blocks(CommandContext& context, Arguments& arguments);
void run_compare(CommandContext& context, Arguments& arguments);
void run_heap(CommandContext& context, Arguments& arguments);
void run_leaks(CommandContext& context, Arguments& arguments);
void run_refs(CommandContext& context, Arguments& arguments);
void run_why(CommandContext& context, Arguments& arguments);
void run_show(CommandContext& context, Arguments& arguments);
void run_errors(CommandContext& context, Arguments& arguments);
void run_events(CommandContext& context, Arguments& arguments);
void run_faults(CommandContext& context, Arguments& arguments);
void run_expire(CommandContext& context, Arguments& arguments);
void run_mark(CommandContext& context, Arguments& arguments);
void run_since(CommandContext& context, Arguments& arguments);
void run_intervals(CommandContext& context, Arguments& arguments);
void run_list(CommandContext& context, Arguments& arguments);
void run_ignore(CommandContext& context, Arguments& arguments);
void run_only(CommandContext& context, Arguments& arguments);
void run_pause(CommandContext& context, Arguments& arguments);
void run_resume(CommandContext& context, Arguments& arguments);
void run_process(CommandContext& context, Arguments& arguments);
void run_processes(CommandContext& context, Arguments& arguments);
void run_threads(CommandContext& context, Arguments& arguments);
void run_modules(CommandContext& context, Arguments& arguments);
void run_save(CommandContext& context, Arguments& arguments);
void run_source(CommandContext& context, Arguments& arguments);
void run_shell(CommandContext& context, Arguments& arguments);
void run_wait(CommandContext& context, Arguments& arguments);
void run_watch(CommandContext& context, Arguments& arguments);
void run_detach(CommandContext& context, Arguments& arguments);
void run_quit(CommandContext& context, Arguments& arguments);

} // namespace memleax
