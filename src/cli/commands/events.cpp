// SPDX-License-Identifier: GPL-3.0-or-later
// Calls that map memory: events.
#include <fmt/format.h>

#include "../command.hpp"
#include "memleax/report/live_lines.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kShownByDefault = 20;

void check_tracked(const CommandContext& context) {
    if (!context.session.options().allocators->tracked().any_mapped()) {
        throw CommandError(
            "mapped memory is not followed; memleax would have to be started with --track mmap");
    }
}

void show_last(CommandContext& context, std::uint64_t count) {
    Session& session = context.session;
    const auto calls = session.tracker().with([count](Tracker& tracker) {
        const MappingLog& log = tracker.mapping_log();
        return log.after(log.last() - std::min(count, log.last()), MappingLog::kCapacity);
    });
    if (calls.empty()) {
        context.console.add("Nothing has been mapped or unmapped yet.\n");
    }
    for (const LoggedMapping& call : calls) {
        if (session.shows(call.stack)) {
            context.console.add(mapping_call(
                call, session.seconds_since_start(call.time), session.names().resolve(call.stack),
                session.names().end(call.stack), session.options().name_style));
        }
    }
}

} // namespace

void run_events(CommandContext& context, Arguments& arguments) {
    const bool live = arguments.take("live");
    if (live || arguments.take("off")) {
        arguments.done();
        check_tracked(context);
        context.session.set_live_events(live);
        return;
    }
    const std::uint64_t count =
        arguments.empty() ? kShownByDefault
                          : arguments.whole("the number of events", 1, MappingLog::kCapacity);
    arguments.done();
    check_tracked(context);
    show_last(context, count);
}

} // namespace memleax
