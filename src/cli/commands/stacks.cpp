// SPDX-License-Identifier: GPL-3.0-or-later
// What the call stacks have allocated: stats, dump, mark, since.
#include <algorithm>

#include <fmt/format.h>

#include "../census_table.hpp"
#include "../command.hpp"
#include "../human_text.hpp"
#include "../stats_table.hpp"
#include "memleax/report/live_lines.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/report/verdict_text.hpp"

namespace memleax {

namespace {

/// What stands behind `by`, in any order.
struct Choice {
    StackOrder order = StackOrder::cost;
    StackGroups groups = StackGroups::none;
};

void take_choice(Arguments& arguments, Choice* choice) {
    static constexpr std::pair<const char*, StackOrder> kOrders[] = {{"bytes", StackOrder::bytes},
                                                                     {"blocks", StackOrder::blocks},
                                                                     {"rate", StackOrder::rate},
                                                                     {"age", StackOrder::age}};
    static constexpr std::pair<const char*, StackGroups> kGroups[] = {
        {"function", StackGroups::function},
        {"line", StackGroups::line},
        {"module", StackGroups::module}};
    const std::string name = arguments.word("the order");
    for (const auto& [known, order] : kOrders) {
        if (name == known) {
            choice->order = order;
            return;
        }
    }
    for (const auto& [known, groups] : kGroups) {
        if (name == known) {
            choice->groups = groups;
            return;
        }
    }
    throw arguments.wrong(
        fmt::format("'{}' is none of bytes, blocks, rate, age, function, line, module", name));
}

void add_hidden(Console& console, std::size_t hidden) {
    if (hidden > 0) {
        console.add(
            console.styled(Style::dim, fmt::format("{} hidden by ignore or only\n", hidden)));
    }
}

/// Everything about one call stack.
std::string whole_account(CommandContext& context, const StackRow& row) {
    Session& session = context.session;
    const CallStackAccount& account = row.stack.account;
    const auto line = [](const char* name, BlockCount count) {
        return fmt::format("    {:<14}{}\n", name, human_count(count));
    };
    std::string text = context.console.styled(
        style_of(row.judgement.verdict),
        fmt::format("CallStack[{}]: {}", account.id, describe(row.judgement.verdict)));
    const std::string reason = why(row.judgement);
    text += reason.empty() ? "\n" : fmt::format(" ({})\n", reason);
    if (account.kind != MemoryKind::heap) {
        text += fmt::format("    {:<14}{}\n", "kind", describe(account.kind));
    }
    text += line("live", account.live());
    text += line("expired", account.may_leak());
    text += line("allocated", account.alloc);
    text += line("freed", account.free);
    text += line("  expired", account.free_expired);
    if (account.untracked.blocks > 0) {
        text += line("not followed", account.untracked);
    }
    text += fmt::format("    {:<14}{}, {}\n", "rate", human_rate(row.judgement.blocks_per_s),
                        human_byte_rate(row.judgement.bytes_per_s));
    if (account.free.blocks > 0) {
        text += fmt::format(
            "    {:<14}{} to {}, {} on average\n", "freed after",
            human_duration(seconds(account.lifetime_min)),
            human_duration(seconds(account.lifetime_max)),
            human_duration(account.lifetime_sum / static_cast<double>(account.free.blocks) / 1e9));
    }
    if (row.stack.oldest) {
        text += fmt::format(
            "    {:<14}{}\n", "oldest live",
            human_duration(seconds(session.process_time().value() - row.stack.oldest->value())));
    }
    const char* label = "intervals";
    for (const IntervalCount& each : row.stack.intervals) {
        if (each.alloc.blocks == 0) {
            continue;
        }
        text += fmt::format(
            "    {:<14}{} to {} ago: {} of {} blocks still live\n", std::exchange(label, ""),
            human_duration(seconds(session.process_time().value() - each.begin.value())),
            human_duration(seconds(session.process_time().value() - each.end.value())),
            each.live.blocks, each.alloc.blocks);
    }
    return text + backtrace_text(session.names().resolve(row.stack.id), row.stack.end, 4,
                                 session.options().name_style);
}

} // namespace

void run_stats(CommandContext& context, Arguments& arguments) {
    std::size_t count = context.stats_rows;
    if (!arguments.empty() && arguments.peek() != "by") {
        count = arguments.whole("the number of call stacks", 1, 1'000'000);
    }
    Choice choice;
    while (arguments.take("by")) {
        take_choice(arguments, &choice);
    }
    arguments.done();
    Session& session = context.session;
    std::size_t hidden = 0;
    auto stacks = with_live_blocks(stack_rows(session, session.process(), choice.order, &hidden));
    const bool is_grouped = choice.groups != StackGroups::none;
    std::size_t all = stacks.size();
    if (!is_grouped) { // names of the others need not be looked up
        stacks.resize(std::min(count, stacks.size()));
    }
    std::vector<StatsRow> rows = stats_rows(session, session.process(), stacks, choice.groups);
    if (is_grouped) {
        all = rows.size();
        sort_rows(rows, choice.order);
        rows.resize(std::min(count, rows.size()));
    }
    if (rows.empty()) {
        context.console.add(session.has_several()
                                ? fmt::format("No live blocks of process {} are known yet; "
                                              "'processes' lists the others.\n",
                                              session.target().pid.value())
                                : "No live blocks are known yet.\n");
    } else {
        context.console.add(stats_table(context.console, rows, choice.groups));
        if (all > rows.size()) {
            context.console.add(context.console.styled(
                Style::dim, fmt::format("{} of {} {}\n", rows.size(), all,
                                        is_grouped ? "groups" : "call stacks")));
        }
    }
    add_hidden(context.console, hidden);
}

void run_dump(CommandContext& context, Arguments& arguments) {
    std::size_t hidden = 0;
    const auto rows =
        stack_rows(context.session, context.session.process(), StackOrder::cost, &hidden);
    if (arguments.take("all")) {
        arguments.done();
        for (const StackRow& row : rows) {
            context.console.add(whole_account(context, row) + "\n");
        }
        return;
    }
    if (arguments.empty()) {
        if (rows.empty()) {
            throw CommandError("no live blocks are known yet");
        }
        context.console.add(whole_account(context, rows.front()));
        return;
    }
    std::string text;
    while (!arguments.empty()) {
        const auto id = arguments.whole("the id", 1, UINT32_MAX);
        const auto row = std::find_if(rows.begin(), rows.end(), [id](const StackRow& each) {
            return each.stack.account.id == id;
        });
        if (row == rows.end()) {
            throw CommandError(fmt::format("there is no call stack {}; try 'stats'", id));
        }
        text += whole_account(context, *row) + (arguments.empty() ? "" : "\n");
    }
    context.console.add(text);
}

void run_mark(CommandContext& context, Arguments& arguments) {
    const std::string name = arguments.empty() ? fmt::format("{}", context.marks().size() + 1)
                                               : arguments.word("the name");
    arguments.done();
    std::erase_if(context.marks(), [&name](const Mark& mark) { return mark.name == name; });
    Mark mark{name, context.session.process_time(), {}};
    for (const StackSnapshot& stack : context.session.tracker().snapshot(mark.time).stacks) {
        if (stack.id.value() >= mark.live.size()) {
            mark.live.resize(stack.id.value() + 1);
        }
        if (is_programs_own(stack.account.kind)) {
            mark.live[stack.id.value()] = stack.account.live();
        }
    }
    context.marks().push_back(std::move(mark));
    context.console.add(fmt::format("Mark {}. 'since {}' shows what has grown.\n", name, name));
}

namespace {

/// The mark that is asked for; one before all blocks if there is none.
Mark find_mark(CommandContext& context, Arguments& arguments) {
    if (arguments.empty()) {
        return context.marks().empty()
                   ? Mark{"the begin",
                          MonotonicNs(context.session.process_time().value() -
                                      static_cast<std::int64_t>(context.session.watched_s() * 1e9)),
                          {}}
                   : context.marks().back();
    }
    const std::string name = arguments.word("the mark");
    arguments.done();
    const auto mark = std::find_if(context.marks().begin(), context.marks().end(),
                                   [&name](const Mark& each) { return each.name == name; });
    if (mark == context.marks().end()) {
        std::string all;
        for (const Mark& each : context.marks()) {
            all += (all.empty() ? "" : ", ") + each.name;
        }
        throw CommandError(fmt::format("there is no mark '{}'; {}", name,
                                       all.empty() ? "'mark' makes one" : "there are: " + all));
    }
    return *mark;
}

struct Growth {
    StackId id;
    std::uint32_t number = 0;
    std::int64_t blocks = 0;
    std::int64_t bytes = 0;
};

std::vector<Growth> growth_since(CommandContext& context, const Mark& mark, Growth* sum) {
    std::vector<Growth> result;
    std::vector<BlockCount> before_all = mark.live;
    for (const StackSnapshot& stack :
         context.session.tracker().snapshot(context.session.process_time()).stacks) {
        const BlockCount before = stack.id.value() < before_all.size()
                                      ? std::exchange(before_all[stack.id.value()], BlockCount{})
                                      : BlockCount{};
        if (!is_programs_own(stack.account.kind) || !context.session.shows(stack.id)) {
            continue;
        }
        const BlockCount live = stack.account.live();
        const Growth growth{stack.id, stack.account.id,
                            static_cast<std::int64_t>(live.blocks - before.blocks),
                            static_cast<std::int64_t>(live.bytes - before.bytes)};
        sum->blocks += growth.blocks;
        sum->bytes += growth.bytes;
        if (growth.blocks > 0 || growth.bytes > 0) {
            result.push_back(growth);
        }
    }
    // A stack whose last block has gone since is not in the snapshot.
    for (std::uint32_t id = 0; id < before_all.size(); ++id) {
        if (before_all[id].blocks > 0 && context.session.shows(StackId(id))) {
            sum->blocks -= static_cast<std::int64_t>(before_all[id].blocks);
            sum->bytes -= static_cast<std::int64_t>(before_all[id].bytes);
        }
    }
    std::sort(result.begin(), result.end(), [](const Growth& a, const Growth& b) {
        return std::tuple(b.bytes, b.blocks, a.number) < std::tuple(a.bytes, a.blocks, b.number);
    });
    return result;
}

} // namespace

void run_since(CommandContext& context, Arguments& arguments) {
    if (!arguments.empty() && has_census(context, arguments.peek())) {
        compare_census(context, arguments);
        return;
    }
    const Mark mark = find_mark(context, arguments);
    Growth sum;
    const auto rows = growth_since(context, mark, &sum);
    const double elapsed = seconds(context.session.process_time().value() - mark.time.value());
    Console& console = context.console;
    console.add(fmt::format("Since {}, {} ago: {} in {:+} blocks\n", mark.name,
                            human_duration(elapsed), change_text(static_cast<double>(sum.bytes)),
                            sum.blocks));
    if (rows.empty()) {
        return;
    }
    constexpr auto kFormat = "{:>5}  {:>10}  {:>9}  {:>11}  ";
    console.add(console.styled(
        Style::heading, fmt::format(kFormat, "ID", "GROWN", "BLOCKS", "BYTES/S") + "WHERE\n"));
    for (const Growth& row : std::span(rows).first(std::min(context.stats_rows, rows.size()))) {
        const std::string line =
            fmt::format(
                kFormat, row.number, change_text(static_cast<double>(row.bytes)),
                fmt::format("{:+}", row.blocks),
                human_byte_rate(elapsed > 0 ? static_cast<double>(row.bytes) / elapsed : 0)) +
            where_text(context.session, context.session.process(), row.id);
        console.add(shortened(line, console.columns()) + "\n");
    }
    if (rows.size() > context.stats_rows) {
        console.add(console.styled(
            Style::dim, fmt::format("{} of {} call stacks\n", context.stats_rows, rows.size())));
    }
}

} // namespace memleax
