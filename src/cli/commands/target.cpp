// SPDX-License-Identifier: GPL-3.0-or-later
// The target itself: status, threads, modules.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include "../command.hpp"
#include "../human_text.hpp"
#include "../memory_lines.hpp"
#include "memleax/base/clock.hpp"
#include "memleax/base/printable.hpp"
#include "memleax/proc/living_thread.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/stopped_share.hpp"
#include "memleax/report/coverage.hpp"
#include "memleax/report/live_lines.hpp"
#include "memleax/report/readable.hpp"
#include "memleax/report/stopped_text.hpp"

namespace memleax {

namespace {

const char* describe(Session::Phase phase) {
    switch (phase) {
    case Session::Phase::starting:
        return "being prepared";
    case Session::Phase::watching:
        return "watched";
    case Session::Phase::paused:
        return "not watched for now (paused)";
    case Session::Phase::left:
        return "not watched any more";
    }
    return "?";
}

/// man page, LANGUAGES
const char* unseen_objects(LanguageRuntime runtime) {
    switch (runtime) {
    case LanguageRuntime::go:
        return "Go's own objects are in its runtime's heap, and not seen; what C code allocates is";
    case LanguageRuntime::python:
        return "Python's objects of up to 512 bytes are in its own arenas, and not seen, unless "
               "PYTHONMALLOC=malloc is in its environment";
    case LanguageRuntime::v8:
        return "JavaScript's objects are in V8's own heap, and not seen; buffers are, and what "
               "native code allocates";
    case LanguageRuntime::php:
        return "PHP's values are in Zend's own heap, and not seen, unless USE_ZEND_ALLOC=0 is in "
               "its environment";
    case LanguageRuntime::ruby:
        return "Ruby's objects are in pages of its own, and not seen; contents that do not fit "
               "into their object are";
    case LanguageRuntime::java:
        return "Java's objects are in the JVM's own heap, and not seen; what native code and the "
               "JVM itself allocate is";
    case LanguageRuntime::chromium:
        return "Chromium's page objects, strings and buffers are in heaps of its own (V8, Oilpan, "
               "partitions of PartitionAlloc), and not seen; what it allocates by malloc and new "
               "is";
    }
    return "?";
}

std::string event_line(CommandContext& context, const EventCounts& events) {
    const std::uint64_t all = events.all();
    const MonotonicNs now = context.session.process_time();
    // Since the last `status`, which is what somebody who repeats it wants to see.
    const bool first = context.events_before_time.value() == 0;
    const double elapsed = first ? context.session.watched_s()
                                 : seconds(now.value() - context.events_before_time.value());
    const std::uint64_t fresh = all - context.events_before;
    context.events_before = all;
    context.events_before_time = now;
    return status_line(
        "events",
        fmt::format("{} ({} since {}): {} allocations, {} frees, {} reallocations, {} "
                    "failed, {} not followed, {} frees of unknown blocks, {} double frees, "
                    "{} invalid, {} mismatched",
                    all, human_rate(elapsed > 0 ? static_cast<double>(fresh) / elapsed : 0),
                    first ? "the begin" : "the last status", events.alloc, events.free,
                    events.realloc, events.failed_alloc, events.unfollowed_alloc,
                    events.unknown_free, events.double_free, events.invalid_free,
                    events.mismatched_free));
}

std::string calls_line(const SeenCalls& calls) {
    std::string text =
        fmt::format("{} of allocator functions, {} of them with a stop", calls.all, calls.stopped);
    const char* before = ": ";
    for (std::size_t i = 0; i < calls.why.size(); ++i) {
        if (calls.why.at(i) != 0) {
            text += fmt::format("{}{} {}", std::exchange(before, ", "), calls.why.at(i),
                                describe(static_cast<StopReason>(i)));
        }
    }
    return status_line("calls", text);
}

std::string mapped_line(const MappedTotals& mapped) {
    std::string text;
    for (unsigned kind = 1; kind < kMemoryKinds; ++kind) {
        text +=
            fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        describe(static_cast<MemoryKind>(kind)), human_count(mapped.live.at(kind)));
    }
    return text;
}

std::string own_line(const Session& session) {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    const auto to_seconds = [](const timeval& t) {
        return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
    };
    const double cpu = to_seconds(usage.ru_utime) + to_seconds(usage.ru_stime);
    const double watched = session.watched_s();
    return status_line(
        "memleax", fmt::format("{} of CPU time{}, {} resident", human_duration(cpu),
                               watched >= 1 ? fmt::format(" ({})", share_text(cpu / watched)) : "",
                               bytes_text(static_cast<double>(
                                   try_read_resident_bytes(Tid(getpid())).value_or(0)))));
}

/// By job control, which only we are told of while we trace it.
bool is_stopped(const ProcessFacts& facts) {
    const auto info = try_read_process_info(living_thread(facts.pid));
    return info && (info->state == 'T' || (facts.stopped && info->state == 't'));
}

/// While it is watched. A process that somebody has stopped stands still in any case.
std::string stops_just_now(const Session& session, const ProcessFacts& target) {
    constexpr std::int64_t kLookNs = 100'000'000;
    if (session.phase() != Session::Phase::watching || is_stopped(target)) {
        return "";
    }
    const std::optional<double> share = sample_stops(target.pid, kLookNs).share();
    return share ? fmt::format("{} in the last 0.1 s", share_text(*share))
                 : "its threads have slept for the last 0.1 s";
}

/// Nothing before it is known.
std::string stopped_line(const Session& session, const ProcessFacts& target,
                         const SeenCalls& calls) {
    const std::string now = stops_just_now(session, target);
    const StopSamples& all = session.process().stops();
    if (now.empty() && all.all() == 0) {
        return "";
    }
    const std::string seen =
        all.all() != 0 ? stopped_text(all) : "no thread was seen that would have run";
    return status_line("stopped", seen + (now.empty() ? "" : "; " + now) + unmeasured_text(calls));
}

/// "" if it is not known. Memory is sampled of all processes together, so of one among several it
/// is not.
std::string coverage_line(const Session& session, const TrackerSnapshot& snapshot) {
    if (session.has_several()) {
        return "";
    }
    const bool is_tracked = session.options().allocators->tracked().any_mapped();
    const auto coverage =
        coverage_of(session.memory(),
                    is_tracked ? std::optional(mapped_bytes(snapshot.mapped.live)) : std::nullopt);
    return coverage ? status_line("coverage", coverage->text()) : "";
}

} // namespace

void run_status(CommandContext& context, Arguments& arguments) {
    arguments.done();
    Session& session = context.session;
    const ProcessFacts target = session.target();
    BlockCount live;
    BlockCount expired;
    const TrackerSnapshot snapshot = session.tracker().snapshot(session.process_time());
    for (const StackSnapshot& stack : snapshot.stacks) {
        if (!is_programs_own(stack.account.kind)) {
            continue;
        }
        live = live + stack.account.live();
        expired = expired + stack.account.may_leak();
    }
    Console& console = context.console;
    console.add(status_line(
        "target", fmt::format("{} ({}), {}{}", target.pid.value(), printable(target.executable),
                              describe(session.phase()),
                              is_stopped(target) ? "; it is stopped, until it gets SIGCONT" : "")));
    const std::size_t threads = list_threads(target.pid).size();
    console.add(
        status_line("threads", threads > 0 ? fmt::format("{}", threads) : "none: it has ended"));
    console.add(
        status_line("watched", fmt::format("for {}, engine {}{}, expiry after {} s",
                                           human_duration(session.watched_s()), target.engine,
                                           unwinder_text(session.options().unwinder),
                                           seconds_text(session.expire_s()))));
    console.add(stopped_line(session, target, snapshot.calls));
    console.add(event_line(context, snapshot.events));
    if (snapshot.calls.all != 0) {
        console.add(calls_line(snapshot.calls));
    }
    console.add(status_line("live", human_count(live)));
    console.add(status_line("expired", human_count(expired)));
    if (session.options().allocators->tracked().any_mapped()) {
        console.add(status_line("mapped", mapped_line(snapshot.mapped)));
    }
    session.look_at_memory();
    const auto& looks = session.process().memory();
    if (looks) {
        console.add(pressure_line(*looks));
    }
    if (threads > 0) {
        const bool is_first = &session.process() == session.processes().first();
        console.add(process_memory_lines(read_process_memory(target.pid),
                                         is_first ? context.memory_at_start : ProcessMemory{}));
    }
    if (looks) {
        console.add(memory_look_lines(*looks));
    }
    console.add(coverage_line(session, snapshot));
    console.add(own_line(session));
}

void run_threads(CommandContext& context, Arguments& arguments) {
    arguments.done();
    Session& session = context.session;
    std::map<Tid, BlockCount> live;
    session.tracker().for_each_block(
        [&live](const Block& block) { live[block.tid].add(block.size); });
    Console& console = context.console;
    console.add(console.styled(Style::heading, fmt::format("{:>8}  {:<5}  {:<16}  {}\n", "THREAD",
                                                           "STATE", "NAME", "LIVE")));
    const auto add = [&console](Tid tid, char state, const std::string& name, BlockCount count) {
        console.add(fmt::format("{:>8}  {:<5}  {:<16}  {}\n", tid.value(), state, printable(name),
                                human_count(count)));
    };
    for (const Tid tid : list_threads(session.target().pid)) {
        if (const auto info = try_read_process_info(tid)) {
            // A thread that we look at in a stop is running, as far as its owner is concerned.
            add(tid, info->state == 't' ? 'R' : info->state, info->comm, live[tid]);
            live.erase(tid);
        }
    }
    for (const auto& [tid, count] : live) {
        if (count.blocks > 0) {
            add(tid, '-', "(has ended)", count);
        }
    }
}

void run_modules(CommandContext& context, Arguments& arguments) {
    arguments.done();
    Console& console = context.console;
    StackNames& names = context.session.names();
    std::vector<std::string> unseen;
    console.add(console.styled(Style::heading, fmt::format("{:<37}  {:<24}  {}\n", "CODE", "MODULE",
                                                           "SYMBOLS, LINES, UNWIND TABLES")));
    for (const auto& module : names.modules()) {
        const AddrRange first =
            module->executable.empty() ? AddrRange{} : module->executable.front();
        const AddrRange last = module->executable.empty() ? AddrRange{} : module->executable.back();
        const ModuleDescription known = names.describe(*module);
        console.add(fmt::format("0x{:016x}-0x{:016x}  {:<24}  {}{}\n", first.begin, last.end,
                                printable(module->name), printable(known.files),
                                module->unloaded ? " (unloaded)" : ""));
        if (known.runtime && !module->unloaded) {
            unseen.push_back(
                fmt::format("{}: {}\n", printable(module->name), unseen_objects(*known.runtime)));
        }
    }
    for (const std::string& sentence : unseen) {
        console.add(sentence);
    }
}

} // namespace memleax
