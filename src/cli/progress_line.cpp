// SPDX-License-Identifier: GPL-3.0-or-later
#include "progress_line.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include "console.hpp"
#include "human_text.hpp"
#include "memleax/base/output_wait.hpp"
#include "memleax/report/live_lines.hpp"

namespace memleax {

namespace {

void write_stderr(const std::string& text) {
    write_and_wait(STDERR_FILENO, text.data(), text.size());
}

} // namespace

bool ProgressLine::wanted(const Options& options, bool interactive) {
    return options.progress == Options::Progress::automatic && options.time_s && !interactive &&
           isatty(STDERR_FILENO) == 1;
}

void ProgressLine::on_timer() {
    timer_.acknowledge();
    struct Sum {
        std::uint64_t events = 0;
        BlockCount live;
        std::uint64_t expired = 0;
    };
    Sum sum;
    for (ProcessAccount* process : session_.processes().all()) {
        process->tracker().with([&sum](Tracker& tracker) {
            sum.events += tracker.events().all();
            sum.live = sum.live + BlockCount{tracker.blocks().size(), tracker.blocks().bytes()};
            sum.expired += tracker.blocks().expired();
        });
    }
    const double time = session_.watched_s();
    const double elapsed = time - time_before_;
    const double rate =
        elapsed > 0 ? static_cast<double>(sum.events - events_before_) / elapsed : 0;
    events_before_ = sum.events;
    time_before_ = time;
    const std::string line = fmt::format("{:.0f} of {} s, {} events, {} live, {} expired", time,
                                         seconds_text(session_.options().time_s.value_or(0)),
                                         human_rate(rate), human_count(sum.live), sum.expired);
    const Console terminal(STDERR_FILENO, Options::Color::never);
    write_stderr("\r\x1b[K" + shortened(line, terminal.columns() - 1));
    visible_ = true;
}

void ProgressLine::erase() {
    if (visible_) {
        write_stderr("\r\x1b[K");
        visible_ = false;
    }
}

} // namespace memleax
