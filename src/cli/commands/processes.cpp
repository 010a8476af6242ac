// SPDX-License-Identifier: GPL-3.0-or-later
// The processes that are watched, and the choice of one (as gdb's "info inferiors" and "inferior").
#include <limits>

#include <fmt/format.h>

#include "../command.hpp"
#include "../human_text.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/events/process_end.hpp"

namespace memleax {

namespace {

std::string state_of(const ProcessFacts& facts, Session::Phase phase) {
    if (facts.ended) {
        return end_text(facts.status);
    }
    return phase == Session::Phase::watching ? "watched" : "not watched";
}

} // namespace

void run_processes(CommandContext& context, Arguments& arguments) {
    arguments.done();
    Session& session = context.session;
    Console& console = context.console;
    constexpr auto kFormat = "{}{:>4}  {:>8}  {:>8}  {:<16}  {:<28}  {}\n";
    console.add(console.styled(
        Style::heading, fmt::format(kFormat, " ", "N", "PID", "PARENT", "NAME", "LIVE", "STATE")));
    for (ProcessAccount* process : session.processes().all()) {
        const ProcessFacts facts = process->facts();
        const BlockCount live = process->tracker().with([](Tracker& tracker) {
            return BlockCount{tracker.blocks().size(), tracker.blocks().bytes()};
        });
        const std::string parent =
            facts.parent.value() != 0 ? fmt::format("{}", facts.parent.value()) : "-";
        console.add(fmt::format(kFormat, process == &session.process() ? "*" : " ", facts.number,
                                facts.pid.value(), parent, printable(facts.comm), human_count(live),
                                state_of(facts, session.phase())));
    }
}

void run_process(CommandContext& context, Arguments& arguments) {
    Session& session = context.session;
    if (!arguments.empty()) {
        const std::uint64_t number =
            arguments.whole("the number of the process", 1, std::numeric_limits<unsigned>::max());
        arguments.done();
        ProcessAccount* process = session.processes().find(number);
        if (process == nullptr) {
            throw CommandError(fmt::format("there is no process {}; try 'processes'", number));
        }
        session.choose_process(*process);
        context.events_before = 0; // of another one
        context.events_before_time = MonotonicNs(0);
    }
    const ProcessFacts facts = session.target();
    context.console.add(fmt::format("Process {} is {} ({}, {}), {}.\n", facts.number,
                                    facts.pid.value(), printable(facts.comm),
                                    printable(facts.executable), state_of(facts, session.phase())));
}

} // namespace memleax
