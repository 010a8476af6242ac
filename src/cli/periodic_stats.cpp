// SPDX-License-Identifier: GPL-3.0-or-later
#include "periodic_stats.hpp"

#include <fmt/format.h>

#include "clock_text.hpp"
#include "human_text.hpp"
#include "memleax/report/memory_shortage.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/report/verdict_text.hpp"
#include "stack_rows.hpp"

namespace memleax {

std::string PeriodicStats::text_of(ProcessAccount& process) {
    std::size_t hidden = 0;
    const auto rows = with_live_blocks(stack_rows(session_, process, StackOrder::cost, &hidden));
    const std::size_t count = std::min<std::size_t>(options_.top, rows.size());
    std::string text = console_.styled(
        Style::heading,
        fmt::format("[{}]{} the {} worst of {} call stacks with live blocks\n", clock_text(),
                    session_.has_several() ? fmt::format(" process {}:", process.pid().value())
                                           : "",
                    count, rows.size()));
    if (const auto& looks = process.memory()) {
        text += fmt::format("memory: {}\n", shortage_of(*looks).text);
    }
    for (const StackRow& row : std::span(rows).first(count)) {
        const std::string reason = why(row.judgement);
        text +=
            fmt::format("CallStack[{}]: {} in {}, {}, {}{}\n", row.stack.account.id,
                        bytes_text(static_cast<double>(row.stack.account.live().bytes)),
                        number_of(row.stack.account.live().blocks, "block"),
                        human_byte_rate(row.judgement.bytes_per_s), describe(row.judgement.verdict),
                        reason.empty() ? "" : " (" + reason + ")");
        text += backtrace_text(process.names().resolve(row.stack.id), row.stack.end, 4,
                               session_.options().name_style);
    }
    return text + "\n";
}

bool PeriodicStats::on_timer() {
    timer_.acknowledge();
    session_.look_at_memory();
    for (ProcessAccount* process : session_.processes().all()) {
        console_.write(text_of(*process));
    }
    ++printed_;
    const std::uint64_t wanted = options_.interval_count;
    return wanted == 0 || printed_ < wanted;
}

} // namespace memleax
