// SPDX-License-Identifier: GPL-3.0-or-later
// The two unwinders, at the next call that has a call stack: compare.
#include <algorithm>

#include <fmt/format.h>

#include "../command.hpp"
#include "../human_text.hpp"
#include "../stack_rows.hpp"
#include "../walk_comparison.hpp"
#include "memleax/engine/stack_comparison.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/unwind/libunwind_walker.hpp"

namespace memleax {

namespace {

std::string comparison_text(const Console& console, Session& session, ProcessAccount& process,
                            std::uint32_t number, const StackComparison::Walks& walks) {
    const auto named = [&process](StackId id) {
        return NamedWalk{process.names().resolve(id), process.names().end(id)};
    };
    const NameStyle style = session.options().name_style;
    const NamedWalk own = named(walks.own);
    const NamedWalk libunwind = named(walks.libunwind);
    const std::string title =
        fmt::format("CallStack[{}], at a call of thread {}: ", number, walks.tid.value());
    const auto differs = first_difference(own, libunwind);
    if (!differs) {
        return fmt::format("{}the walks of memleax and libunwind are equal, {}\n", title,
                           number_of(own.frames.machine_frames().size(), "frame"));
    }
    return fmt::format("{}the walks differ from frame {} on\n", title, *differs) +
           walks_side_by_side(console, own, libunwind, style);
}

} // namespace

void run_compare(CommandContext& context, Arguments& arguments) {
    const auto number = arguments.whole("the id", 1, UINT32_MAX);
    arguments.done();
    if (const char* reason = LibunwindWalker::reason_against()) {
        throw CommandError(fmt::format("this build is without libunwind: {}", reason));
    }
    need_watching(context);
    Session& session = context.session;
    ProcessAccount& process = session.process();
    std::size_t hidden = 0;
    const auto rows = stack_rows(session, process, StackOrder::cost, &hidden);
    const auto row = std::find_if(rows.begin(), rows.end(), [number](const StackRow& each) {
        return each.stack.account.id == number;
    });
    if (row == rows.end()) {
        throw CommandError(fmt::format("there is no call stack {}; try 'stats'", number));
    }
    auto comparison = session.compare_walks(process, row->stack.id);
    if (!comparison) {
        throw CommandError(comparison.error().message());
    }
    context.console.add(
        fmt::format("Waiting for the next call with CallStack[{}]; Ctrl-C ends that.\n", number));
    context.host.wait_until(
        [&context, &session, &process, number, shown = *std::move(comparison)] {
            const auto walks = shown->walks();
            if (walks) {
                context.console.add(
                    comparison_text(context.console, session, process, number, *walks));
            }
            return walks.has_value();
        },
        fmt::format("No call with CallStack[{}] has come.\n", number));
}

} // namespace memleax
