// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/live_lines.hpp"

#include <cmath>

#include <fmt/format.h>

#include "memleax/report/report.hpp"

namespace memleax {

namespace {
constexpr unsigned kIndent = 4;
} // namespace

std::string count_text(BlockCount count) {
    return fmt::format("{} ({} bytes)", count.blocks, count.bytes);
}

std::string seconds_text(double seconds) {
    if (seconds == std::floor(seconds) || seconds >= 100) {
        return fmt::format("{:.0f}", seconds);
    }
    // Three digits that matter, without zeros behind them.
    std::string text = fmt::format("{:.{}f}", seconds, seconds >= 10 ? 1 : seconds >= 1 ? 2 : 3);
    text.erase(text.find_last_not_of('0') + 1);
    if (text.ends_with('.')) {
        text.pop_back();
    }
    return text;
}

std::string of_process(Tid pid, const std::string& lines) {
    std::string text;
    bool at_begin = true;
    for (const char c : lines) {
        if (at_begin && c != ' ' && c != '\n') {
            text += fmt::format("[pid {}] ", pid.value());
        }
        text += c;
        at_begin = c == '\n';
    }
    return text;
}

std::string expired_first(std::uint64_t id, std::uint64_t size, const Backtrace& frames,
                          StackEnd end, NameStyle style) {
    return fmt::format("CallStack[{}]: memory expires with {} bytes, backtrace:\n", id, size) +
           backtrace_text(frames, end, kIndent, style);
}

std::string expired_again(std::uint64_t id, std::uint64_t size, std::uint64_t times) {
    return fmt::format("CallStack[{}]: memory expires with {} bytes, {} times by now\n", id, size,
                       times);
}

std::string freed_after_expiry(std::uint64_t id, double seconds) {
    return fmt::format("CallStack[{}]: expired-memory frees after {} seconds\n", id,
                       seconds_text(seconds));
}

std::string too_many_expired_free(std::uint64_t id) {
    return fmt::format(
        "Warning: too many expired-free at CallStack[{}]. will not show this CallStack "
        "later\n",
        id);
}

std::string mapping_call(const LoggedMapping& call, double seconds, const Backtrace& frames,
                         StackEnd end, NameStyle style) {
    const auto range_text = [](AddrRange range) {
        return fmt::format("{:#x}-{:#x}, {} bytes", range.begin, range.end, range.size());
    };
    std::string text =
        fmt::format("+{:.3f} s, thread {}: {}", seconds, call.tid.value(), describe(call.call));
    if (call.failed) {
        text += " failed";
    }
    if (call.unmapped.size() != 0) {
        text += fmt::format(" ends {}", range_text(call.unmapped));
        // Otherwise all of it is ours.
        if (call.known != call.unmapped.size() && !call.failed) {
            text += fmt::format(", {} of them known", call.known);
        }
    }
    if (call.added.size() != 0) {
        text +=
            fmt::format("{} maps {}", call.unmapped.size() != 0 ? "," : "", range_text(call.added));
    }
    return text + fmt::format(" ({})\n", describe(call.kind)) +
           backtrace_text(frames, end, kIndent, style);
}

std::string block_limit_text(std::uint64_t id, std::uint64_t blocks) {
    return fmt::format("{} memory block{} expired at CallStack[{}]: the limit is reached "
                       "(--memory-block-max)",
                       blocks, blocks == 1 ? "" : "s", id);
}

std::string stack_limit_text(std::uint64_t stacks) {
    return fmt::format("{} CallStack{} with expired memory: the limit is reached "
                       "(--call-stack-max)",
                       stacks, stacks == 1 ? "" : "s");
}

std::string block_limit_reached(std::uint64_t id, std::uint64_t blocks) {
    return fmt::format("\n== {}.\n", block_limit_text(id, blocks));
}

std::string stack_limit_reached(std::uint64_t stacks) {
    return fmt::format(
        "\n== {}.\n"
        "-- If these are no leaks, blocks live longer here: try a larger --expire.\n",
        stack_limit_text(stacks));
}

} // namespace memleax
