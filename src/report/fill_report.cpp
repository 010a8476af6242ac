// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <tuple>

#include "memleax/clock.hpp"
#include "memleax/fill_report.hpp"

namespace memleax {

namespace {

CallStackReport describe_stack(const StackSnapshot& snapshot, MonotonicNs now, MonotonicNs begin) {
    const CallStackAccount& account = snapshot.account;
    CallStackReport stack;
    stack.id = account.id;
    stack.alloc = account.alloc;
    stack.free = account.free;
    stack.live = account.live();
    stack.expired = account.expired;
    stack.free_expired = account.free_expired;
    stack.lost = account.lost;
    stack.lost_expired = account.lost_expired;
    stack.end = snapshot.end;
    if (account.free.blocks > 0) {
        stack.freed_lifetime = FreedLifetime{
            seconds(account.lifetime_min),
            account.lifetime_sum / static_cast<double>(account.free.blocks) / kNsPerSecond,
            seconds(account.lifetime_max)};
    }
    if (snapshot.oldest) {
        stack.oldest_live_s =
            seconds(std::max<std::int64_t>(now.value() - snapshot.oldest->value(), 0));
    }
    if (!snapshot.intervals.empty()) {
        stack.judgement = judge(snapshot.intervals, now);
    }
    for (const IntervalCount& interval : snapshot.intervals) {
        stack.intervals.push_back({seconds(interval.begin.value() - begin.value()),
                                   seconds(interval.end.value() - begin.value()), interval.alloc,
                                   interval.live});
    }
    return stack;
}

void add(const EventCounts& seen, Report::Events* sum) {
    sum->alloc += seen.alloc;
    sum->free += seen.free;
    sum->realloc += seen.realloc;
    sum->failed_alloc += seen.failed_alloc;
    sum->unknown_free += seen.unknown_free;
    sum->double_free += seen.double_free;
    sum->invalid_free += seen.invalid_free;
    sum->mismatched_free += seen.mismatched_free;
}

void add(const CallStackAccount& account, Report::Totals* sum) {
    sum->live = sum->live + account.live();
    sum->expired = sum->expired + account.may_leak();
}

} // namespace

void fill_report(const TrackerSnapshot& snapshot, MonotonicNs begin, const StackResolver& resolve,
                 const StackChoice& shows, Report* report) {
    Report::Process unnamed; // of a report that tells none apart
    Report::Process& process = report->processes.empty() ? unnamed : report->processes.back();
    add(snapshot.events, &report->session.events);
    add(snapshot.events, &process.events);
    const auto index =
        static_cast<std::uint32_t>(std::max<std::size_t>(report->processes.size(), 1) - 1);
    const auto resolve_known = [&resolve](StackId id) {
        return id == kNoStack ? Backtrace() : resolve(id);
    };
    for (const MemoryError& error : snapshot.errors) {
        report->errors.push_back({error, index, resolve_known(error.free_stack),
                                  resolve_known(error.freed_before),
                                  resolve_known(error.alloc_stack)});
    }
    for (const StackSnapshot& each : snapshot.stacks) {
        add(each.account, &report->totals);
        add(each.account, &process.totals);
        Backtrace frames = resolve(each.id);
        if (shows(frames)) {
            report->callstacks.push_back(describe_stack(each, snapshot.time, begin));
            report->callstacks.back().frames = std::move(frames);
            report->callstacks.back().process = index;
        }
    }
    std::sort(report->callstacks.begin(), report->callstacks.end(),
              [](const auto& a, const auto& b) {
                  const BlockCount leak_a = a.may_leak();
                  const BlockCount leak_b = b.may_leak();
                  return std::tuple(leak_a.bytes, leak_a.blocks, a.live.bytes, b.process, b.id) <
                         std::tuple(leak_b.bytes, leak_b.blocks, b.live.bytes, a.process, a.id);
              });
}

} // namespace memleax
