// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <tuple>

#include "memleax/clock.hpp"
#include "memleax/fill_report.hpp"

namespace memleax {

namespace {

/// When each stack's oldest live block began, by one pass over all of them.
std::vector<std::optional<MonotonicNs>> oldest_by_stack(const Tracker& tracker) {
    std::vector<std::optional<MonotonicNs>> oldest(tracker.stacks().size());
    tracker.blocks().for_each([&](const Block& block) {
        auto& entry = oldest[block.stack.value()];
        entry = entry ? std::min(*entry, block.time) : block.time;
    });
    return oldest;
}

CallStackReport describe_stack(const CallStackAccount& account, std::optional<MonotonicNs> oldest,
                               MonotonicNs now) {
    CallStackReport stack;
    stack.id = account.id;
    stack.alloc = account.alloc;
    stack.free = account.free;
    stack.live = account.live();
    stack.expired = account.expired;
    stack.free_expired = account.free_expired;
    if (account.free.blocks > 0) {
        stack.freed_lifetime = FreedLifetime{
            seconds(account.lifetime_min),
            account.lifetime_sum / static_cast<double>(account.free.blocks) / kNsPerSecond,
            seconds(account.lifetime_max)};
    }
    if (oldest) {
        stack.oldest_live_s = seconds(std::max<std::int64_t>(now.value() - oldest->value(), 0));
    }
    return stack;
}

} // namespace

void fill_intervals(const Intervals& intervals, StackId id, MonotonicNs now,
                    MonotonicNs watching_since, CallStackReport* stack) {
    const auto counts = intervals.of(id, now);
    if (counts.empty()) {
        return;
    }
    stack->judgement = judge(counts, now);
    const auto since = [&](MonotonicNs time) {
        return seconds(time.value() - watching_since.value());
    };
    stack->intervals.reserve(counts.size());
    for (const IntervalCount& count : counts) {
        stack->intervals.push_back({since(count.begin), since(count.end), count.alloc, count.live});
    }
}

void fill_report(Tracker& tracker, MonotonicNs now, const StackResolver& resolve, Report* report,
                 std::optional<MonotonicNs> watching_since) {
    const MonotonicNs since = watching_since.value_or(tracker.intervals().origin().value_or(now));
    const EventCounts& events = tracker.events();
    report->session.events = {events.alloc,        events.free,         events.realloc,
                              events.failed_alloc, events.unknown_free, events.double_free};
    const auto oldest = oldest_by_stack(tracker);
    for (std::uint32_t index = 0; index < tracker.stacks().size(); ++index) {
        const StackId id(index);
        if (tracker.account(id).live().blocks == 0 && tracker.account(id).expired.blocks == 0) {
            continue;
        }
        tracker.number(id);
        const CallStackAccount& account = tracker.account(id);
        CallStackReport stack = describe_stack(account, oldest[index], now);
        stack.frames = resolve(id);
        stack.end = tracker.stacks().end(id);
        fill_intervals(tracker.intervals(), id, now, since, &stack);
        report->totals.live.blocks += stack.live.blocks;
        report->totals.live.bytes += stack.live.bytes;
        report->totals.expired.blocks += account.may_leak().blocks;
        report->totals.expired.bytes += account.may_leak().bytes;
        report->callstacks.push_back(std::move(stack));
    }
    std::sort(report->callstacks.begin(), report->callstacks.end(),
              [](const auto& a, const auto& b) {
                  const BlockCount leak_a = a.expired - a.free_expired;
                  const BlockCount leak_b = b.expired - b.free_expired;
                  return std::tuple(leak_a.bytes, leak_a.blocks, a.live.bytes, b.id) <
                         std::tuple(leak_b.bytes, leak_b.blocks, b.live.bytes, a.id);
              });
}

} // namespace memleax
