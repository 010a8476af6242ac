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
        context.console.add("There are no intervals. 'intervals new' begins the first.\n");
        return;
    }
    context.console.add(fmt::format(
        "{}, from {} ago to {}.\n", number_of(bounds.size(), "interval"),
        human_duration(seconds(now.value() - bounds.front().begin.value())),
        recording ? "now"
                  : human_duration(seconds(now.value() - bounds.back().end.value())) + " ago"));
}

} // namespace

namespace {

void drop_oldest(CommandContext& context) {
    if (!context.session.tracker().with(
            [](Tracker& tracker) { return tracker.intervals().drop_oldest(); })) {
        throw CommandError("there is only the interval that is being recorded");
    }
    say_intervals(context);
}

void clear(CommandContext& context) {
    const MonotonicNs now = context.session.process_time();
    context.session.tracker().with(
        [now](Tracker& tracker) { tracker.intervals().start(tracker.delivered_until(now)); });
    say_intervals(context);
}

} // namespace

void run_intervals(CommandContext& context, Arguments& arguments) {
    const std::string what = arguments.empty() ? "" : arguments.word("what to do");
    arguments.done();
    SharedTracker& shared = context.session.tracker();
    const MonotonicNs now = context.session.process_time();
    if (what == "new") {
        shared.with(
            [now](Tracker& tracker) { tracker.intervals().restart(tracker.delivered_until(now)); });
    } else if (what == "stop") {
        shared.with(
            [now](Tracker& tracker) { tracker.intervals().stop(tracker.delivered_until(now)); });
    } else if (what == "drop") {
        context.host.when_confirmed("Forget the oldest interval as evidence?",
                                    [&context] { drop_oldest(context); });
        return;
    } else if (what == "clear") {
        context.host.when_confirmed("Forget all intervals, which verdicts rest on?",
                                    [&context] { clear(context); });
        return;
    } else if (!what.empty()) {
        throw arguments.wrong(fmt::format("'{}' is none of new, stop, drop, clear", what));
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
