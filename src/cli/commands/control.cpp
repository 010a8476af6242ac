// SPDX-License-Identifier: GPL-3.0-or-later
// Commands that change what is watched, and how.
#include <algorithm>

#include <fmt/format.h>

#include "../command.hpp"
#include "../human_text.hpp"
#include "../option_values.hpp"
#include "memleax/report/live_lines.hpp"

namespace memleax {

void need_watching(const CommandContext& context) {
    switch (context.session.phase()) {
    case Session::Phase::watching:
        return;
    case Session::Phase::paused:
        throw CommandError("watching is paused; try 'resume'");
    default:
        throw CommandError("the target is not watched any more; what is known can be read");
    }
}

void run_expire(CommandContext& context, Arguments& arguments) {
    if (!arguments.empty()) {
        const double seconds = arguments.seconds("the age");
        arguments.done();
        context.session.set_expire_s(seconds);
    }
    context.console.add(fmt::format("Blocks expire at an age of {} s.\n",
                                    seconds_text(context.session.expire_s())));
}

void run_pause(CommandContext& context, Arguments& arguments) {
    arguments.done();
    need_watching(context);
    context.session.pause();
    if (context.session.phase() == Session::Phase::paused) {
        context.console.add("All breakpoints are out. 'resume' puts them in again.\n");
        BlockCount live;
        for (ProcessAccount* process : context.session.processes().all()) {
            live = live + process->tracker().with([](Tracker& tracker) {
                return BlockCount{tracker.blocks().size(), tracker.blocks().bytes()};
            });
        }
        if (live.blocks > 0) {
            context.console.add(
                fmt::format("It will set {} aside, which {} live now: nobody sees whether {} freed "
                            "meanwhile.\n",
                            human_count(live), live.blocks == 1 ? "is" : "are",
                            live.blocks == 1 ? "it is" : "they are"));
        }
    }
}

void run_resume(CommandContext& context, Arguments& arguments) {
    arguments.done();
    if (context.session.phase() == Session::Phase::watching) {
        throw CommandError("the target is being watched");
    }
    if (context.session.phase() != Session::Phase::paused) {
        need_watching(context);
    }
    context.session.resume();
    context.host.wait_for_watching();
}

void run_wait(CommandContext& context, Arguments& arguments) {
    const double seconds = arguments.seconds("the time");
    arguments.done();
    context.host.wait_for(seconds);
}

void run_watch(CommandContext& context, Arguments& arguments) {
    constexpr double kUsualPeriodS = 2;
    constexpr double kShortestPeriodS = 0.1; // as watch(1)
    double period_s = kUsualPeriodS;
    std::string line = arguments.rest();
    std::string word = command_word(line);
    if (const auto given = duration(word)) {
        period_s = std::max(*given, kShortestPeriodS);
        line = line.substr(line.find(word) + word.size());
        word = command_word(line);
    }
    if (word.empty()) {
        throw arguments.wrong("the command is missing");
    }
    if (find_command(word).again != Again::by_watch) {
        throw arguments.wrong(fmt::format("'{}' does more than to show something", word));
    }
    context.host.watch(line.substr(line.find(word)), period_s);
}

void run_detach(CommandContext& context, Arguments& arguments) {
    arguments.done();
    if (context.session.phase() == Session::Phase::left) {
        need_watching(context);
    }
    context.session.leave("user");
}

void run_quit(CommandContext& context, Arguments& arguments) {
    arguments.done();
    context.session.end("user");
}

namespace {

void show_patterns(Console& console, const char* what, const std::vector<std::string>& patterns) {
    if (patterns.empty()) {
        console.add(fmt::format("No call stacks are {}.\n", what));
        return;
    }
    console.add(fmt::format("Call stacks are {} through:\n", what));
    for (const std::string& pattern : patterns) {
        console.add("    " + pattern + "\n");
    }
}

} // namespace

void run_ignore(CommandContext& context, Arguments& arguments) {
    StackFilter& filter = context.session.filter();
    if (arguments.take("clear")) {
        filter.clear_ignored();
    } else if (!arguments.empty()) {
        filter.ignore(arguments.word("the pattern"));
    }
    arguments.done();
    show_patterns(context.console, "hidden", filter.ignored());
}

void run_only(CommandContext& context, Arguments& arguments) {
    StackFilter& filter = context.session.filter();
    if (arguments.take("clear")) {
        filter.clear_only();
    } else if (!arguments.empty()) {
        filter.only(arguments.word("the pattern"));
    }
    arguments.done();
    show_patterns(context.console, filter.only().empty() ? "singled out" : "shown only",
                  filter.only());
}

} // namespace memleax
