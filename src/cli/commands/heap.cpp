// SPDX-License-Identifier: GPL-3.0-or-later
// The whole heap: leaks, heap, why, refs.
#include <algorithm>

#include <fmt/format.h>

#include "../census_table.hpp"
#include "../command.hpp"
#include "../heap_facts.hpp"
#include "../human_text.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/leak_check_report.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

constexpr double kMsPerSecond = 1000;

HeapView& look(Session& session) {
    auto looked = session.look_at_heap(session.process());
    if (!looked) {
        throw CommandError(looked.error().message());
    }
    return **looked;
}

/// By the last look, or a new one if that does not know the address.
std::uint32_t find_block(Session& session, RemoteAddr address) {
    auto block = heap_of(session).find(address);
    if (!block && session.phase() == Session::Phase::watching) {
        block = look(session).find(address);
    }
    if (!block) {
        const std::string& unlisted = heap_of(session).snapshot().unlisted;
        throw CommandError(unlisted.empty()
                               ? fmt::format("{:#x} is in no block of the heap", address.value())
                               : fmt::format("{:#x} is in no block that was watched, and {}",
                                             address.value(), unlisted));
    }
    return *block;
}

std::vector<std::uint32_t> blocks_of_stack(Session& session, HeapView& heap, std::uint64_t number) {
    std::vector<std::uint32_t> blocks;
    std::map<StackId, bool> is_it;
    for (std::uint32_t i = 0; i < heap.graph().blocks.size(); ++i) {
        const StackId stack = heap.stack(i);
        if (stack == kNoStack) {
            continue;
        }
        const auto [known, is_new] = is_it.try_emplace(stack, false);
        if (is_new) {
            known->second = session.tracker().with([stack = stack](Tracker& tracker) {
                return tracker.number(stack);
            }) == number;
        }
        if (known->second) {
            blocks.push_back(i);
        }
    }
    return blocks;
}

void explain(CommandContext& context, HeapView& heap, std::uint32_t block) {
    Session& session = context.session;
    Console& console = context.console;
    console.add(
        fmt::format("{}: {}\n", block_text(session, heap, block), class_text(heap.loss(block))));
    if (heap.loss(block) != LossClass::definite) {
        console.add(chain_text(session, heap, block));
    }
    console.add(fmt::format("Without it there would be lost: {}\n",
                            human_count(heap.retained().of_block[block])));
}

} // namespace

void run_leaks(CommandContext& context, Arguments& arguments) {
    const std::size_t count =
        arguments.empty() ? 20 : arguments.whole("the number of groups", 1, 1'000'000);
    arguments.done();
    HeapView& heap = look(context.session);
    LeakFindings found = heap.findings(0, heap.gone());
    std::erase_if(found.records,
                  [](const LeakRecord& each) { return each.loss == LossClass::reachable; });
    const std::size_t all = found.records.size();
    if (all > count) {
        found.records.resize(count);
    }
    Console& console = context.console;
    StringSink text;
    write_leak_findings(found, context.session.options().name_style, text);
    console.add(
        fmt::format("The process stood still for {:.1f} ms.\n", found.pause_s * kMsPerSecond) +
        text.text);
    if (all > count) {
        console.add(console.styled(Style::dim, fmt::format("{} of {} groups\n", count, all)));
    }
}

void run_heap(CommandContext& context, Arguments& arguments) {
    static constexpr std::pair<const char*, Census::Key> kKeys[] = {
        {"type", Census::Key::type},
        {"size", Census::Key::size},
        {"stack", Census::Key::stack},
        {"holder", Census::Key::holder}};
    Census::Key key = Census::Key::type;
    if (arguments.take("by")) {
        const std::string name = arguments.word("what to count by");
        const auto known = std::find_if(std::begin(kKeys), std::end(kKeys),
                                        [&name](const auto& each) { return name == each.first; });
        if (known == std::end(kKeys)) {
            throw arguments.wrong(fmt::format("'{}' is none of type, size, stack, holder", name));
        }
        key = known->second;
    }
    arguments.done();
    HeapView& heap = look(context.session);
    const Census& census = take_census(context, heap, key);
    context.console.add(unlisted_text(heap.snapshot().unlisted, heap.all().blocks));
    context.console.add(fmt::format("{}: {}; the process stood still for {:.1f} ms\n", census.name,
                                    human_count(heap.all()),
                                    seconds(heap.snapshot().pause_ns) * kMsPerSecond));
    context.console.add(census_table(context.console, census, context.stats_rows));
}

void run_why(CommandContext& context, Arguments& arguments) {
    Session& session = context.session;
    if (!arguments.empty() && arguments.peek().starts_with("0x")) {
        const RemoteAddr address = arguments.address();
        arguments.done();
        const std::uint32_t block = find_block(session, address);
        explain(context, heap_of(session), block);
        return;
    }
    const auto number = arguments.whole("the address or id", 1, UINT32_MAX);
    arguments.done();
    auto blocks = blocks_of_stack(session, heap_of(session), number);
    if (blocks.empty() && session.phase() == Session::Phase::watching) {
        blocks = blocks_of_stack(session, look(session), number);
    }
    if (blocks.empty()) {
        throw CommandError(
            fmt::format("no block of call stack {} is in the heap; try 'stats'", number));
    }
    HeapView& heap = heap_of(session);
    Console& console = context.console;
    console.add(fmt::format("CallStack[{}] has {} in the heap.\n", number,
                            number_of(blocks.size(), "block")));
    for (const LeakHolder& holder : heap.holders_of(blocks)) {
        console.add(fmt::format("{} of {} held by {}\n", holder.blocks, blocks.size(),
                                printable(holder.name)));
    }
    const auto lost = static_cast<std::size_t>(
        std::count_if(blocks.begin(), blocks.end(), [&heap](std::uint32_t block) {
            return heap.loss(block) == LossClass::definite ||
                   heap.loss(block) == LossClass::indirect;
        }));
    if (lost > 0) {
        console.add(fmt::format("{} of {} lost\n", lost, blocks.size()));
    }
    console.add("One of them:\n");
    explain(context, heap, blocks[blocks.size() / 2]);
}

void run_refs(CommandContext& context, Arguments& arguments) {
    const RemoteAddr address = arguments.address();
    arguments.done();
    Session& session = context.session;
    const std::uint32_t block = find_block(session, address);
    HeapView& heap = heap_of(session);
    const References found = references_to(heap.graph(), block);
    Console& console = context.console;
    console.add(fmt::format("{}: {}\n", block_text(session, heap, block),
                            number_of(found.roots.size() + found.links.size(), "pointer")));
    const auto add = [&](const std::string& from, BlockLink link) {
        console.add(fmt::format("    {}{}\n", from, link.is_interior() ? " (into it)" : ""));
    };
    std::size_t shown = 0;
    for (const std::uint32_t root : found.roots) {
        if (shown++ < context.stats_rows) {
            add(printable(heap.root_name(root)), heap.graph().roots[root]);
        }
    }
    for (const auto& [from, link] : found.links) {
        if (shown++ < context.stats_rows) {
            const std::uint64_t at = heap.graph().details.link_words[link] * sizeof(std::uint64_t);
            add(fmt::format("{}, +{}", block_text(session, heap, from), at),
                heap.graph().links[link]);
        }
    }
    if (shown > context.stats_rows) {
        console.add(console.styled(Style::dim,
                                   fmt::format("{} of {} pointers\n", context.stats_rows, shown)));
    }
}

} // namespace memleax
