// SPDX-License-Identifier: GPL-3.0-or-later
// What happens besides allocations, calls that map memory and probes: events.
#include <map>
#include <tuple>

#include <fmt/format.h>
#include <fnmatch.h>

#include "../command.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/live_lines.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/session/probe_view.hpp"
#include "memleax/symbols/module_probes.hpp"

namespace memleax {

namespace {

constexpr std::uint64_t kShownByDefault = 20;

bool are_mappings_tracked(const CommandContext& context) {
    return context.session.options().allocators->tracked().any_mapped();
}

void check_tracked(const CommandContext& context) {
    if (!are_mappings_tracked(context)) {
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

/// What --probe counts.
void show_counted(CommandContext& context) {
    std::vector<ProbeReport> probes;
    add_probes(context.session.process(), 0, context.session.filter(), &probes);
    for (const ProbeReport& probe : probes) {
        context.console.add(fmt::format("Probe {}\n", probe_line(probe)));
    }
    if (probes.empty()) {
        context.console.add("No probe that --probe asks for is there.\n");
    }
}

/// What there is to count: a line for each, of every module that is there.
void list_probes(CommandContext& context, const std::string& glob) {
    std::map<std::string, std::uint64_t> counted;
    std::vector<ProbeReport> probes;
    add_probes(context.session.process(), 0, context.session.filter(), &probes);
    for (const ProbeReport& probe : probes) {
        counted[probe.name] = probe.calls;
    }
    bool any_of_libc = false;
    // Module, probe, its arguments; and at how many places.
    std::map<std::tuple<std::string, std::string, std::string>, std::uint64_t> found;
    for (const auto& module : context.session.names().modules()) {
        if (module->unloaded || !module->image) {
            continue;
        }
        for (const SdtProbe& probe : probes_of(*module->image)) {
            any_of_libc = any_of_libc || probe.provider == "libc";
            if (fnmatch(glob.c_str(), probe.full_name().c_str(), 0) == 0) {
                ++found[{module->name, probe.full_name(), probe.arguments}];
            }
        }
    }
    for (const auto& [key, places] : found) {
        const auto& [module, name, arguments] = key;
        std::string line = fmt::format("{:<24}  {}", printable(module), printable(name));
        if (!arguments.empty()) {
            line += fmt::format("  {}", printable(arguments));
        }
        if (places != 1) {
            line += fmt::format(", {}", number_of(places, "place"));
        }
        if (const auto calls = counted.find(name); calls != counted.end()) {
            line += fmt::format(": {}", number_of(calls->second, "call"));
        }
        if (const std::string_view meaning = explain_probe(name); !meaning.empty()) {
            line += fmt::format(" ({})", meaning);
        }
        context.console.add(line + "\n");
    }
    if (found.empty()) {
        context.console.add("No such probe is there.\n");
    }
    if (!any_of_libc) {
        context.console.add("The C library has no probes: it was built without them, as Debian's "
                            "is.\n");
    }
}

} // namespace

void run_events(CommandContext& context, Arguments& arguments) {
    if (arguments.take("probes")) {
        const std::string glob = arguments.empty() ? "*" : arguments.word("a pattern");
        arguments.done();
        list_probes(context, glob);
        return;
    }
    const bool live = arguments.take("live");
    if (live || arguments.take("off")) {
        arguments.done();
        check_tracked(context);
        context.session.set_live_events(live);
        return;
    }
    const bool is_plain = arguments.empty();
    const std::uint64_t count =
        is_plain ? kShownByDefault
                 : arguments.whole("the number of events", 1, MappingLog::kCapacity);
    arguments.done();
    const bool has_probes = !context.session.options().allocators->probes().empty();
    if (has_probes && is_plain) {
        show_counted(context);
        if (!are_mappings_tracked(context)) {
            return;
        }
    }
    check_tracked(context);
    show_last(context, count);
}

} // namespace memleax
