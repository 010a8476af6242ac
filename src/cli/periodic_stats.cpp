// SPDX-License-Identifier: GPL-3.0-or-later
#include "periodic_stats.hpp"

#include <ctime>

#include <fmt/format.h>

#include "human_text.hpp"
#include "memleax/readable.hpp"
#include "stack_rows.hpp"

namespace memleax {

namespace {

std::string clock_text() {
    const std::time_t now = std::time(nullptr);
    std::tm local{};
    localtime_r(&now, &local);
    return fmt::format("{:02}:{:02}:{:02}", local.tm_hour, local.tm_min, local.tm_sec);
}

} // namespace

bool PeriodicStats::on_timer() {
    timer_.acknowledge();
    std::size_t hidden = 0;
    const auto rows = stack_rows(session_, StackOrder::evidence, &hidden);
    const std::size_t count = std::min<std::size_t>(session_.options().top, rows.size());
    std::string text = console_.styled(
        Style::heading, fmt::format("[{}] the {} worst of {} call stacks with live blocks\n",
                                    clock_text(), count, rows.size()));
    for (const StackRow& row : std::span(rows).first(count)) {
        text +=
            fmt::format("CallStack[{}]: {} in {}, {}, {}{}\n", row.stack.account.id,
                        bytes_text(static_cast<double>(row.stack.account.live().bytes)),
                        number_of(row.stack.account.live().blocks, "block"),
                        human_byte_rate(row.judgement.bytes_per_s), describe(row.judgement.verdict),
                        row.judgement.why.empty() ? "" : " (" + row.judgement.why + ")");
        text += backtrace_text(session_.names().resolve(row.stack.id), row.stack.end, 4);
    }
    console_.write(text + "\n");
    ++printed_;
    const std::uint64_t wanted = session_.options().interval_count;
    return wanted == 0 || printed_ < wanted;
}

} // namespace memleax
