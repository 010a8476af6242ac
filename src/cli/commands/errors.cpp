// SPDX-License-Identifier: GPL-3.0-or-later
// Memory errors: errors.
#include <algorithm>

#include <fmt/format.h>

#include "../command.hpp"
#include "memleax/report/live_lines.hpp"

namespace memleax {

namespace {

ErrorReport with_stacks(Session& session, const MemoryError& error) {
    const auto frames = [&session](StackId id) {
        return id == kNoStack ? Backtrace() : session.names().resolve(id);
    };
    return {error, 0, frames(error.free_stack), frames(error.freed_before),
            frames(error.alloc_stack)};
}

} // namespace

void run_errors(CommandContext& context, Arguments& arguments) {
    const bool all = arguments.take("all");
    const std::uint64_t number =
        all || arguments.empty() ? 0 : arguments.whole("the number", 1, UINT32_MAX);
    arguments.done();
    Session& session = context.session;
    const std::vector<MemoryError> errors =
        session.tracker().with([](Tracker& tracker) { return tracker.errors(); });
    Console& console = context.console;
    if (number > errors.size()) {
        throw CommandError(
            fmt::format("there is no error {}; there {}", number,
                        errors.size() == 1 ? "is 1" : fmt::format("are {}", errors.size())));
    }
    for (const MemoryError& error : errors) {
        if (all || number == error.number) {
            console.add(memory_error(with_stacks(session, error), session.options().name_style));
        } else if (number == 0) {
            console.add(memory_error({error, 0, {}, {}, {}}));
        }
    }
    if (errors.empty()) {
        console.add(session.options().check
                        ? "No memory errors so far.\n"
                        : "No memory errors so far; without --check only double frees are "
                          "looked for.\n");
    } else if (errors.size() == MemoryErrors::kMost) {
        console.add("There may be more: no other call stacks are kept.\n");
    }
}

} // namespace memleax
