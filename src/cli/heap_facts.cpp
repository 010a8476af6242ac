// SPDX-License-Identifier: GPL-3.0-or-later
#include "heap_facts.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "arguments.hpp"
#include "human_text.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

constexpr std::size_t kLongestChain = 64; ///< lines, of a list of a million

/// "+24", of a pointer within a block.
std::string pointer_text(const HeapView& heap, std::uint64_t link) {
    const std::uint64_t from = heap.graph().details.link_words[link] * sizeof(std::uint64_t);
    const bool interior = heap.graph().links[link].is_interior();
    return fmt::format("+{}{}", from, interior ? " (into it)" : "");
}

} // namespace

HeapView& heap_of(Session& session) {
    if (HeapView* heap = session.process().heap()) {
        return *heap;
    }
    auto looked = session.look_at_heap(session.process());
    if (!looked) {
        throw CommandError(looked.error().message());
    }
    return **looked;
}

const char* class_text(LossClass loss) {
    switch (loss) {
    case LossClass::definite:
        return "definitely lost: nothing points to it";
    case LossClass::indirect:
        return "indirectly lost: only lost blocks point to it";
    case LossClass::possible:
        return "possibly lost: only pointers into blocks lead to it";
    case LossClass::reachable:
        return "still reachable";
    }
    return "";
}

std::string block_text(Session& session, HeapView& heap, std::uint32_t block) {
    const HeapBlock& it = heap.block(block);
    std::string text = fmt::format("{:#x}, {}", it.address.value(), number_of(it.size, "byte"));
    if (!heap.type(block).empty()) {
        text += ", " + printable(heap.type(block));
    }
    if (const StackId stack = heap.stack(block); stack != kNoStack) {
        text += fmt::format(", CallStack[{}]", session.tracker().with([stack](Tracker& tracker) {
            return tracker.number(stack);
        }));
    }
    return text;
}

std::string chain_text(Session& session, HeapView& heap, std::uint32_t block) {
    struct Line {
        std::uint32_t block;
        std::string by;
    };
    std::vector<Line> lines;
    std::string root;
    for (std::uint32_t at = block;;) {
        const auto step = heap.chains().holder_of(at);
        if (!step) {
            lines.push_back({at, ""});
            break;
        }
        if (!step->block) {
            const bool interior = heap.graph().roots[step->pointer].is_interior();
            root = printable(heap.root_name(step->pointer)) + (interior ? " (into it)" : "");
            lines.push_back({at, ""});
            break;
        }
        lines.push_back({at, pointer_text(heap, step->pointer)});
        at = *step->block;
    }
    std::string text = root.empty() ? "" : fmt::format("    {}\n", root);
    const std::size_t all = lines.size();
    std::size_t number = 0;
    for (auto line = lines.rbegin(); line != lines.rend(); ++line, ++number) {
        if (all > kLongestChain && number == kLongestChain / 2) {
            const std::size_t hidden = all - kLongestChain;
            text += fmt::format("    ... {} more\n", number_of(hidden, "block"));
            line += static_cast<std::ptrdiff_t>(hidden);
        }
        // The pointer that leads on stands in the line of whom it is in.
        text += fmt::format("    -> {}{}\n", block_text(session, heap, line->block),
                            std::next(line) == lines.rend() || std::next(line)->by.empty()
                                ? ""
                                : ", " + std::next(line)->by);
    }
    return text;
}

std::string heap_facts(Session& session, RemoteAddr address) {
    HeapView* heap = session.process().heap();
    const auto block = heap != nullptr ? heap->find(address) : std::nullopt;
    if (!block) {
        return "";
    }
    const double age = seconds(session.process_time().value() - heap->snapshot().time.value());
    std::string text =
        fmt::format("    in the heap, {} ago: {}; {}\n", human_duration(std::max(age, 0.0)),
                    block_text(session, *heap, *block), class_text(heap->loss(*block)));
    if (const std::uint32_t group = heap->group_of(*block); group != kNoGroup) {
        text += fmt::format("    held by {}\n", printable(heap->group_name(group)));
    }
    return text + fmt::format("    without it there would be lost: {}\n",
                              human_count(heap->retained().of_block[*block]));
}

} // namespace memleax
