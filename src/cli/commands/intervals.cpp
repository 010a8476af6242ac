// SPDX-License-Identifier: GPL-3.0-or-later
// The intervals of time whose blocks are the evidence of stats; as in libmemleak.
#include <fmt/format.h>

#include "../command.hpp"
#include "../human_text.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

void say_intervals(CommandContext& context) {
    const MonotonicNs now = context.session.process_time();
    const auto [bounds, recording] = context.session.tracker().with([now](Tracker& tracker) {
        return std::pair(tracker.intervals().bounds(now), tracker.intervals().recording());
    });
    if (bounds.empty()) {
        context.console.add("There are no intervals. 'start' begins the first.\n");
        return;
    }
    context.console.add(fmt::format(
        "{}, from {} ago to {}.\n", number_of(bounds.size(), "interval"),
        human_duration(seconds(now.value() - bounds.front().begin.value())),
        recording ? "now"
                  : human_duration(seconds(now.value() - bounds.back().end.value())) + " ago"));
}

} // namespace

void run_start(CommandContext& context, Arguments& arguments) {
    arguments.done();
    const MonotonicNs now = context.session.process_time();
    context.session.tracker().with([now](Tracker& tracker) { tracker.intervals().start(now); });
    say_intervals(context);
}

void run_stop(CommandContext& context, Arguments& arguments) {
    arguments.done();
    const MonotonicNs now = context.session.process_time();
    context.session.tracker().with([now](Tracker& tracker) { tracker.intervals().stop(now); });
    say_intervals(context);
}

void run_restart(CommandContext& context, Arguments& arguments) {
    arguments.done();
    const MonotonicNs now = context.session.process_time();
    context.session.tracker().with([now](Tracker& tracker) { tracker.intervals().restart(now); });
    say_intervals(context);
}

void run_delete(CommandContext& context, Arguments& arguments) {
    arguments.done();
    if (!context.session.tracker().with(
            [](Tracker& tracker) { return tracker.intervals().drop_oldest(); })) {
        throw CommandError("there is only the interval that is being recorded; try 'start'");
    }
    say_intervals(context);
}

void run_list(CommandContext& context, Arguments& arguments) {
    if (!arguments.empty()) {
        const auto rows = arguments.whole("the number of call stacks", 1, 1'000'000);
        arguments.done();
        context.stats_rows = rows;
    }
    context.console.add(
        fmt::format("stats prints {}.\n", number_of(context.stats_rows, "call stack")));
}

} // namespace memleax
