// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/session/session_printer.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "live_printer.hpp"
#include "memleax/base/log.hpp"
#include "memleax/report/live_lines.hpp"
#include "memleax/report/readable.hpp"

namespace memleax {

namespace {

/// Live lines that wait for the end of a pager, besides the first one of each call stack.
constexpr std::size_t kMaxHeldNotices = 20'000;

/// Events of a process that are printed in one go.
constexpr std::size_t kEventsAtOnce = 256;

std::string limit_text(const Notice& notice) {
    return notice.kind == Notice::Kind::block_limit ? block_limit_text(notice.id, notice.count)
                                                    : stack_limit_text(notice.count);
}

} // namespace

bool SessionPrinter::wants_live_lines(const SessionOptions& options) {
    return options.format->write == write_text && options.live_lines;
}

void SessionPrinter::set_live_events(bool live) {
    live_events_ = live;
    for (ProcessAccount* process : processes_.all()) {
        printed_events_[process] =
            process->tracker().with([](Tracker& t) { return t.mapping_log().last(); });
    }
}

void SessionPrinter::take_notices(const std::function<void()>& on_limit) {
    for (ProcessAccount* process : processes_.active()) {
        for (const Notice& notice :
             process->tracker().with([](Tracker& t) { return t.take_notices(); })) {
            if (notice.kind == Notice::Kind::block_limit ||
                notice.kind == Notice::Kind::stack_limit) {
                on_limit();
                if (!live_lines_) { // which say so
                    announce(with_process(*process, limit_text(notice)));
                }
            }
            // As in the tracker: without its first expiry the later lines of a stack mean nothing.
            const bool first = notice.kind == Notice::Kind::expired && notice.count == 1;
            if (live_lines_ && (first || notices_.size() < kMaxHeldNotices)) {
                notices_.emplace_back(process, notice);
            }
        }
    }
}

void SessionPrinter::print_news(bool last) {
    if (has_to_wait(last)) {
        return;
    }
    for (const auto& [process, notice] : std::exchange(notices_, {})) {
        print(with_process(*process,
                           LivePrinter(process->names(), filter_, name_style_).text(notice)));
    }
    if (live_events_) {
        print_events(last);
    }
}

// No more than there are now, and but for the last time some of them: who reads may be slower than
// the target, and signals and the time's end have to be seen meanwhile.
void SessionPrinter::print_events(bool all) {
    for (ProcessAccount* process : processes_.active()) {
        std::uint64_t& printed = printed_events_[process];
        const auto end = process->tracker().with([](Tracker& t) { return t.mapping_log().last(); });
        for (bool is_first = true; printed < end && (all || is_first); is_first = false) {
            const auto calls = process->tracker().with(
                [&](Tracker& t) { return t.mapping_log().after(printed, kEventsAtOnce); });
            if (calls.empty()) {
                break;
            }
            if (calls.front().number != printed + 1) {
                print(fmt::format("({} events were too many to be printed)\n",
                                  calls.front().number - printed - 1));
            }
            for (const LoggedMapping& call : calls) {
                const Backtrace frames = process->names().resolve(call.stack);
                if (!filter_.empty() && !filter_.shows(frames)) {
                    continue;
                }
                const std::string text =
                    mapping_call(call, clock_.seconds_since_begin(call.time), frames,
                                 process->names().end(call.stack), name_style_);
                print(with_process(*process, text));
            }
            printed = calls.back().number;
        }
    }
}

bool SessionPrinter::has_more() {
    const auto processes = processes_.active();
    return !has_to_wait(false) &&
           std::any_of(processes.begin(), processes.end(),
                       [this](ProcessAccount* process) { return !has_told(*process); });
}

bool SessionPrinter::has_told(ProcessAccount& process) {
    if (!live_events_) {
        return true;
    }
    const auto last = process.tracker().with([](Tracker& t) { return t.mapping_log().last(); });
    return printed_events_[&process] == last;
}

std::string SessionPrinter::with_process(const ProcessAccount& process,
                                         const std::string& lines) const {
    return several_ ? of_process(process.pid(), lines) : lines;
}

/// To the report's place, above the line that is being typed.
void SessionPrinter::print(std::string_view text) {
    if (text.empty()) {
        return;
    }
    if (client_ != nullptr) {
        client_->before_output();
    }
    output_.write(text);
    if (client_ != nullptr) {
        client_->after_output();
    }
}

} // namespace memleax
