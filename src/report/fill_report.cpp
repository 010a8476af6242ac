// SPDX-License-Identifier: GPL-3.0-or-later
#include <algorithm>
#include <tuple>

#include "memleax/base/clock.hpp"
#include "memleax/report/fill_report.hpp"
#include "memleax/report/own_frame.hpp"

namespace memleax {

namespace {

CallStackReport describe_stack(const StackSnapshot& snapshot, MonotonicNs now, MonotonicNs begin) {
    const CallStackAccount& account = snapshot.account;
    CallStackReport stack;
    stack.id = account.id;
    stack.kind = account.kind;
    stack.alloc = account.alloc;
    stack.free = account.free;
    stack.live = account.live();
    stack.expired = account.expired;
    stack.free_expired = account.free_expired;
    stack.untracked = account.untracked;
    stack.untracked_expired = account.untracked_expired;
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
        stack.judgement = judge(snapshot.intervals, now, snapshot.oldest);
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
    sum->unfollowed_alloc += seen.unfollowed_alloc;
    sum->unknown_free += seen.unknown_free;
    sum->double_free += seen.double_free;
    sum->invalid_free += seen.invalid_free;
    sum->mismatched_free += seen.mismatched_free;
}

void add(const CallStackReport& stack, Report::Totals* sum) {
    sum->live = sum->live + stack.live;
    sum->expired = sum->expired + stack.may_leak();
    sum->leaking_stacks += stack.is_leaking() ? 1 : 0;
    sum->suspect_stacks += stack.is_suspect() ? 1 : 0;
    sum->untracked = sum->untracked + stack.untracked;
}

void add(const MappedTotals& seen, std::optional<std::uint64_t> unexplained,
         std::optional<Report::Mapped>* sum) {
    if (!sum->has_value()) {
        *sum = Report::Mapped{}; // clang 14 has no emplace() for a class within a class
    }
    Report::Mapped& mapped = **sum;
    mapped.mapped += seen.mapped;
    mapped.unmapped += seen.unmapped;
    mapped.failed += seen.failed;
    for (std::size_t kind = 0; kind < seen.live.size(); ++kind) {
        mapped.live.at(kind) = mapped.live.at(kind) + seen.live.at(kind);
    }
    if (unexplained) {
        mapped.unexplained = mapped.unexplained.value_or(0) + *unexplained;
    }
}

/// Most leaked last.
void sort_stacks(std::vector<CallStackReport>& stacks) {
    std::sort(stacks.begin(), stacks.end(), [](const auto& a, const auto& b) {
        const BlockCount leak_a = a.may_leak();
        const BlockCount leak_b = b.may_leak();
        return std::tuple(leak_a.bytes, leak_a.blocks, a.live.bytes, b.process, b.id) <
               std::tuple(leak_b.bytes, leak_b.blocks, b.live.bytes, a.process, a.id);
    });
}

} // namespace

std::size_t where_of(const CallStackReport& stack) {
    return stack.where ? *stack.where : own_frame(stack.frames);
}

void add_mapped(const MappedTotals& seen, std::optional<std::uint64_t> unexplained,
                Report* report) {
    add(seen, unexplained, &report->mapped);
    if (!report->processes.empty()) {
        add(seen, unexplained, &report->processes.back().mapped);
    }
}

void fill_report(const TrackerSnapshot& snapshot, MonotonicNs begin, const StackResolver& resolve,
                 const StackChoice& shows, const Wrappers& wrappers, Report* report,
                 const StackFindings& findings) {
    Report::Process unnamed; // of a report that tells none apart
    Report::Process& process = report->processes.empty() ? unnamed : report->processes.back();
    add(snapshot.events, &report->session.events);
    report->session.calls += snapshot.calls;
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
        const bool is_own = is_programs_own(each.account.kind);
        CallStackReport stack = describe_stack(each, snapshot.time, begin);
        if (const auto finding = findings.find(each.id); finding != findings.end()) {
            const Judgement judged =
                with_finding(stack.judgement.value_or(Judgement{}), finding->second);
            if (stack.judgement || judged.verdict == Verdict::lost) {
                stack.judgement = judged;
            }
        }
        if (is_own) {
            add(stack, &report->totals);
            add(stack, &process.totals);
        }
        Backtrace frames = resolve(each.id);
        if (shows(frames)) {
            auto& stacks = is_own ? report->callstacks : report->internal_callstacks;
            stack.frames = std::move(frames);
            stack.where = own_frame(stack.frames, wrappers);
            stack.process = index;
            stacks.push_back(std::move(stack));
        }
    }
    for (const UnfollowedSnapshot& each : snapshot.unfollowed) {
        Backtrace frames = resolve(each.id);
        if (shows(frames)) {
            report->unfollowed.push_back(
                {index, each.calls, each.why, std::move(frames), each.end});
        }
    }
}

void sort_report(Report* report) {
    std::stable_sort(report->unfollowed.begin(), report->unfollowed.end(),
                     [](const auto& a, const auto& b) { return a.calls.bytes < b.calls.bytes; });
    sort_stacks(report->callstacks);
    sort_stacks(report->internal_callstacks);
    if (report->page_faults) {
        sort_fault_stacks(&*report->page_faults);
    }
}

} // namespace memleax
