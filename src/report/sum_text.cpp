// SPDX-License-Identifier: GPL-3.0-or-later
#include "sum_text.hpp"

#include <cstdint>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "memleax/report/live_lines.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

std::string sum_text(const Report& report) {
    std::uint64_t suspects = 0;
    std::uint64_t cleared = 0;
    BlockCount old;
    BlockCount young; // but ever larger
    BlockCount cleared_old;
    for (const CallStackReport& stack : report.callstacks) {
        if (!stack.is_in_text()) {
            continue;
        }
        const bool is_suspect = stack.is_suspect();
        ++(is_suspect ? suspects : cleared);
        BlockCount& sum = is_suspect ? old : cleared_old;
        sum = sum + stack.may_leak();
        young = stack.is_ever_larger() ? young + (stack.live - stack.may_leak()) : young;
    }
    const auto amount = [](BlockCount count) {
        return fmt::format("{} in {}", number_of(count.bytes, "byte"),
                           number_of(count.blocks, "block"));
    };
    const std::string age = fmt::format("older than {} s", seconds_text(report.session.expire_s));
    std::vector<std::string> parts;
    if (suspects > 0) {
        std::string text = fmt::format("{} may leak: ", number_of(suspects, "call stack"));
        if (old.blocks > 0 || young.blocks == 0) {
            text += fmt::format("{} {}", amount(old), age);
        }
        if (young.blocks > 0) {
            text += fmt::format("{}{} replaced by ever larger ones", old.blocks > 0 ? ", " : "",
                                amount(young));
        }
        parts.push_back(std::move(text));
    }
    if (cleared > 0) {
        parts.push_back(fmt::format("{} settled or at a plateau: {} {}",
                                    number_of(cleared, "call stack"), amount(cleared_old), age));
    }
    return fmt::format("== {}; live in all: {}.\n", fmt::join(parts, "; "),
                       count_text(report.totals.live));
}

} // namespace memleax
