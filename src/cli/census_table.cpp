// SPDX-License-Identifier: GPL-3.0-or-later
#include "census_table.hpp"

#include <algorithm>
#include <span>
#include <vector>

#include <fmt/format.h>

#include "human_text.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/readable.hpp"
#include "stack_rows.hpp"

namespace memleax {

namespace {

constexpr const char* kLost = "(lost)";

const char* describe_key(Census::Key key) {
    switch (key) {
    case Census::Key::type:
        return "type";
    case Census::Key::size:
        return "size";
    case Census::Key::stack:
        return "stack";
    case Census::Key::holder:
        return "holder";
    }
    return "";
}

/// What each call stack is called; made once for each.
class StackLabels {
  public:
    explicit StackLabels(Session& session) : session_(session) {}
    const std::string& of(StackId stack) {
        std::string& label = labels_[stack];
        if (label.empty()) {
            label = stack == kNoStack
                        ? "(allocated before the watching)"
                        : fmt::format("CallStack[{}] {}",
                                      session_.tracker().with([stack](Tracker& tracker) {
                                          return tracker.number(stack);
                                      }),
                                      where_text(session_, session_.process(), stack));
        }
        return label;
    }

  private:
    Session& session_;
    std::map<StackId, std::string> labels_;
};

void count_blocks(Session& session, HeapView& heap, Census* census) {
    StackLabels stacks(session);
    for (std::uint32_t i = 0; i < heap.graph().blocks.size(); ++i) {
        const std::uint64_t size = heap.block(i).size;
        census
            ->rows[census->key == Census::Key::size ? number_of(size, "byte")
                                                    : stacks.of(heap.stack(i))]
            .add(size);
    }
}

BlockCount sum_of(const HeapCounts& counts) {
    BlockCount sum;
    for (const auto& [name, count] : counts) {
        sum = sum + count;
    }
    return sum;
}

void add_printable(const HeapCounts& counts, Census* census) {
    for (const auto& [name, count] : counts) {
        BlockCount& row = census->rows[printable(name)];
        row = row + count;
    }
}

void count_types(HeapView& heap, Census* census) {
    const HeapCounts types = heap.by_type();
    add_printable(types, census);
    if (const BlockCount rest = heap.all() - sum_of(types); rest.blocks > 0) {
        census->rows["(no type is known)"] = rest;
    }
}

void count_holders(HeapView& heap, Census* census) {
    add_printable(heap.by_holder(), census);
    const BlockCount lost =
        heap.classes().total(LossClass::definite) + heap.classes().total(LossClass::indirect);
    if (lost.blocks > 0) {
        census->rows[kLost] = lost;
    }
}

} // namespace

Census& take_census(CommandContext& context, HeapView& heap, Census::Key key) {
    Census census;
    census.name = fmt::format("heap{}", context.censuses.size() + 1);
    census.process = context.session.process().number();
    census.key = key;
    census.time = heap.snapshot().time;
    if (key == Census::Key::holder) {
        count_holders(heap, &census);
    } else if (key == Census::Key::type) {
        count_types(heap, &census);
    } else {
        count_blocks(context.session, heap, &census);
    }
    context.censuses.push_back(std::move(census));
    return context.censuses.back();
}

std::string census_table(const Console& console, const Census& census, std::size_t rows) {
    constexpr auto kFormat = "{:>10}  {:>9}  ";
    std::string text = console.styled(
        Style::heading,
        fmt::format(kFormat, census.key == Census::Key::holder ? "RETAINED" : "BYTES", "BLOCKS") +
            (census.key == Census::Key::type    ? "TYPE\n"
             : census.key == Census::Key::size  ? "SIZE\n"
             : census.key == Census::Key::stack ? "WHERE\n"
                                                : "HOLDER\n"));
    for (const auto& [label, count] : largest(census.rows, rows)) {
        text += shortened(fmt::format(kFormat, bytes_text(static_cast<double>(count.bytes)),
                                      count.blocks) +
                              label,
                          console.columns()) +
                "\n";
    }
    if (census.rows.size() > rows) {
        text +=
            console.styled(Style::dim, fmt::format("{} of {} rows\n", rows, census.rows.size()));
    }
    return text;
}

bool has_census(const CommandContext& context, const std::string& name) {
    return std::any_of(context.censuses.begin(), context.censuses.end(),
                       [&name](const Census& each) { return each.name == name; });
}

void compare_census(CommandContext& context, Arguments& arguments) {
    const std::string name = arguments.word("the census");
    arguments.done();
    const auto& all = context.censuses;
    const auto before = std::find_if(all.begin(), all.end(),
                                     [&name](const Census& each) { return each.name == name; });
    const auto after = std::find_if(all.rbegin(), all.rend(), [&before](const Census& each) {
        return each.key == before->key && each.process == before->process;
    });
    if (&*after == &*before) {
        throw CommandError(fmt::format("there is none to compare {} with; 'heap by {}' makes one",
                                       name, describe_key(before->key)));
    }
    struct Growth {
        std::string label;
        std::int64_t blocks = 0;
        std::int64_t bytes = 0;
    };
    std::vector<Growth> rows;
    const auto add = [&rows](const std::string& label, BlockCount from, BlockCount to) {
        if (from != to) {
            rows.push_back({label, static_cast<std::int64_t>(to.blocks - from.blocks),
                            static_cast<std::int64_t>(to.bytes - from.bytes)});
        }
    };
    for (const auto& [label, count] : after->rows) {
        const auto then = before->rows.find(label);
        add(label, then != before->rows.end() ? then->second : BlockCount{}, count);
    }
    for (const auto& [label, count] : before->rows) {
        if (!after->rows.contains(label)) {
            add(label, count, {});
        }
    }
    std::stable_sort(rows.begin(), rows.end(),
                     [](const Growth& a, const Growth& b) { return a.bytes > b.bytes; });
    Console& console = context.console;
    console.add(fmt::format("From {} to {}, {} later:\n", before->name, after->name,
                            human_duration(seconds(after->time.value() - before->time.value()))));
    if (rows.empty()) {
        console.add("nothing has changed\n");
        return;
    }
    constexpr auto kFormat = "{:>10}  {:>9}  ";
    console.add(console.styled(Style::heading, fmt::format(kFormat, "GROWN", "BLOCKS") + "WHAT\n"));
    for (const Growth& row : std::span(rows).first(std::min(context.stats_rows, rows.size()))) {
        console.add(shortened(fmt::format(kFormat, change_text(static_cast<double>(row.bytes)),
                                          fmt::format("{:+}", row.blocks)) +
                                  row.label,
                              console.columns()) +
                    "\n");
    }
    if (rows.size() > context.stats_rows) {
        console.add(console.styled(
            Style::dim, fmt::format("{} of {} rows\n", context.stats_rows, rows.size())));
    }
}

} // namespace memleax
