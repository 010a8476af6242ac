// SPDX-License-Identifier: GPL-3.0-or-later
// Page faults: faults.
#include <fmt/format.h>

#include "../command.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/report/report_writer.hpp"
#include "memleax/session/fault_view.hpp"

namespace memleax {

void run_faults(CommandContext& context, Arguments& arguments) {
    constexpr std::uint64_t kShownByDefault = 10;
    const std::uint64_t count = arguments.empty()
                                    ? kShownByDefault
                                    : arguments.whole("the number of call stacks", 1, UINT32_MAX);
    arguments.done();
    Session& session = context.session;
    if (!session.options().allocators->tracked().faults) {
        throw CommandError("page faults are not followed; memleax would have to be started with "
                           "--track faults");
    }
    PageFaultReport faults;
    add_page_faults(session.process(), 0, session.filter(), &faults);
    sort_fault_stacks(&faults);
    StringSink text;
    write_fault_stacks(faults, 0, count, session.options().name_style, text);
    context.console.add(text.text);
    context.console.add(fmt::format("Page faults: {}, from {}.\n", fault_totals_text(faults.totals),
                                    number_of(faults.stacks.size(), "call stack")));
    context.console.add(resident_line(faults, 0));
}

} // namespace memleax
