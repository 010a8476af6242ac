// SPDX-License-Identifier: GPL-3.0-or-later
// Calls that map memory: events.
#include <fmt/format.h>

#include "../command.hpp"
#include "memleax/live_lines.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kShownByDefault = 20;

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
            context.console.add(mapping_call(call, session.seconds_since_start(call.time),
                                             session.names().resolve(call.stack),
                                             session.names().end(call.stack)));
        }
    }
}

} // namespace

void run_events(CommandContext& context, Arguments& arguments) {
    if (!context.session.options().allocators->tracked().any_mapped()) {
        throw CommandError("mapped memory is not followed; start memleax with "
                           "'--track heap,mmap,brk,shm'");
    }
    const bool live = arguments.take("live");
    if (live || arguments.take("off")) {
        arguments.done();
        context.session.set_live_events(live);
        return;
    }
    const std::uint64_t count =
        arguments.empty() ? kShownByDefault
                          : arguments.whole("the number of events", 1, MappingLog::kCapacity);
    arguments.done();
    show_last(context, count);
}

} // namespace memleax
