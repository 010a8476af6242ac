// SPDX-License-Identifier: GPL-3.0-or-later
// Single blocks: blocks, show.
#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "../command.hpp"
#include "../heap_facts.hpp"
#include "../human_text.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

namespace {

/// Bytes that `show` prints of a block, and in one line.
constexpr std::size_t kPreviewBytes = 256;
constexpr std::size_t kLineBytes = 16;

std::optional<StackId> stack_of(Session& session, std::uint64_t number) {
    for (const StackSnapshot& stack : session.tracker().snapshot(session.process_time()).stacks) {
        if (stack.account.id == number) {
            return stack.id;
        }
    }
    return std::nullopt;
}

std::string age_text(const Session& session, MonotonicNs begin) {
    return human_duration(
        seconds(std::max<std::int64_t>(session.process_time().value() - begin.value(), 0)));
}

std::string hex_line(RemoteAddr address, std::span<const std::byte> bytes) {
    std::string hex;
    std::string text;
    for (std::size_t i = 0; i < kLineBytes; ++i) {
        if (i >= bytes.size()) {
            hex += "   ";
            continue;
        }
        const auto byte = static_cast<unsigned char>(bytes[i]);
        hex += fmt::format(" {:02x}", byte);
        text += byte >= 0x20 && byte < 0x7f ? static_cast<char>(byte) : '.';
    }
    return fmt::format("    0x{:016x} {}  |{}|\n", address.value(), hex, text);
}

std::string preview(const Session& session, const Block& block) {
    if (session.phase() == Session::Phase::left) {
        return "    (the target is not watched any more: its memory may be another by now)\n";
    }
    auto memory = RemoteMemory::open(session.target().pid);
    if (!memory) {
        return fmt::format("    ({})\n", memory.error().message());
    }
    std::array<std::byte, kPreviewBytes> bytes{};
    const std::size_t wanted = std::min<std::uint64_t>(block.size, bytes.size());
    const std::size_t got = memory->try_read(block.address, std::span(bytes).first(wanted));
    std::string text;
    for (std::size_t at = 0; at < got; at += kLineBytes) {
        text += hex_line(block.address + static_cast<std::int64_t>(at),
                         std::span(bytes).first(got).subspan(at, std::min(kLineBytes, got - at)));
    }
    if (got < wanted) {
        text += "    (not readable any more)\n";
    } else if (block.size > wanted) {
        text += fmt::format("    ({} more bytes)\n", block.size - wanted);
    }
    return text;
}

} // namespace

void run_blocks(CommandContext& context, Arguments& arguments) {
    const auto number = arguments.whole("the id", 1, UINT32_MAX);
    const std::size_t count =
        arguments.empty() ? 20 : arguments.whole("the number of blocks", 1, 1'000'000);
    arguments.done();
    Session& session = context.session;
    const auto stack = stack_of(session, number);
    if (!stack) {
        throw CommandError(fmt::format("there is no call stack {}; try 'stats'", number));
    }
    std::vector<Block> blocks;
    std::size_t all = 0;
    const auto older = [](const Block& a, const Block& b) {
        return std::tuple(a.time, a.address) < std::tuple(b.time, b.address);
    };
    const auto take = [&](const Block& block) {
        if (block.stack != *stack) {
            return;
        }
        ++all;
        blocks.push_back(block); // a heap with the youngest on top
        std::push_heap(blocks.begin(), blocks.end(), older);
        if (blocks.size() > count) {
            std::pop_heap(blocks.begin(), blocks.end(), older);
            blocks.pop_back();
        }
    };
    session.tracker().for_each_block(take);
    session.tracker().for_each_range(take);
    std::sort_heap(blocks.begin(), blocks.end(), older);
    Console& console = context.console;
    console.add(console.styled(Style::heading, fmt::format("{:<18}  {:>10}  {:>14}  {:>8}\n",
                                                           "ADDRESS", "BYTES", "AGE", "THREAD")));
    for (const Block& block : blocks) {
        console.add(fmt::format("0x{:016x}  {:>10}  {:>14}  {:>8}{}\n", block.address.value(),
                                block.size, age_text(session, block.time), block.tid.value(),
                                block.expired ? "  expired" : ""));
    }
    if (all > blocks.size()) {
        console.add(
            console.styled(Style::dim, fmt::format("{} of {} blocks\n", blocks.size(), all)));
    }
}

void run_show(CommandContext& context, Arguments& arguments) {
    const RemoteAddr address = arguments.address();
    arguments.done();
    Session& session = context.session;
    std::optional<Block> found;
    const auto look = [&](const Block& block) {
        // A block of no bytes is at its address, too.
        if (address >= block.address &&
            (address == block.address ||
             static_cast<std::uint64_t>(address - block.address) < block.size)) {
            found = block;
        }
    };
    session.tracker().for_each_range(look);
    session.tracker().for_each_block(look); // rather than the range that an allocator has it in
    Console& console = context.console;
    if (!found) {
        const std::string in_heap = heap_facts(session, address);
        console.add(
            in_heap.empty()
                ? fmt::format("0x{:x} is in no live block that we know. Blocks from before the "
                              "watching are not known; leaks or heap looks at them.\n",
                              address.value())
                : in_heap);
        return;
    }
    const auto [number, account_end] = session.tracker().with([&](Tracker& tracker) {
        return std::pair(tracker.number(found->stack), tracker.stacks().end(found->stack));
    });
    console.add(fmt::format("0x{:x} is {} bytes into a block of {} bytes at 0x{:x}, {} old{}, "
                            "allocated by thread {} at CallStack[{}]:\n",
                            address.value(), address - found->address, found->size,
                            found->address.value(), age_text(session, found->time),
                            found->expired ? " (expired)" : "", found->tid.value(), number));
    console.add(backtrace_text(session.names().resolve(found->stack), account_end, 4,
                               session.options().name_style));
    console.add(heap_facts(session, found->address));
    console.add(preview(session, *found));
}

} // namespace memleax
