// SPDX-License-Identifier: GPL-3.0-or-later
#include "html_support.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "report_support.hpp"

namespace memleax {

namespace {

constexpr double kDuration = 600;
constexpr unsigned kIntervals = 9;

/// How a call stack behaves: its blocks of 1 s, and the share of them left at an age in seconds.
struct Behaviour {
    std::uint64_t id;
    Verdict verdict;
    std::uint64_t block_size;
    double blocks_per_s;
    double (*left)(double age, double at);
    Reason reason;
};

/// The youngest is as long as its two neighbours together are short: each about twice the next.
std::vector<std::pair<double, double>> divisions() {
    std::vector<std::pair<double, double>> result;
    double length = kDuration / 2;
    double begin = 0;
    for (unsigned i = 0; i < kIntervals; ++i) {
        const double end = i + 1 == kIntervals ? kDuration : begin + length;
        result.emplace_back(begin, end);
        begin = end;
        length /= 2;
    }
    return result;
}

CallStackReport call_stack(const Behaviour& how, Backtrace frames) {
    CallStackReport stack;
    stack.id = how.id;
    stack.frames = std::move(frames);
    for (const auto& [begin, end] : divisions()) {
        IntervalReport interval;
        interval.begin_s = begin;
        interval.end_s = end;
        for (double second = begin; second < end; second += 1) {
            const double share = how.left(kDuration - second, second);
            interval.alloc.blocks += static_cast<std::uint64_t>(how.blocks_per_s);
            interval.live.blocks += static_cast<std::uint64_t>(how.blocks_per_s * share);
        }
        interval.alloc.bytes = interval.alloc.blocks * how.block_size;
        interval.live.bytes = interval.live.blocks * how.block_size;
        stack.alloc.blocks += interval.alloc.blocks;
        stack.live.blocks += interval.live.blocks;
        if (end < kDuration - 10) {
            stack.expired.blocks += interval.live.blocks;
        }
        stack.intervals.push_back(interval);
    }
    stack.free.blocks = stack.alloc.blocks - stack.live.blocks;
    for (BlockCount* count : {&stack.alloc, &stack.live, &stack.free, &stack.expired}) {
        count->bytes = count->blocks * how.block_size;
    }
    if (stack.free.blocks > 0) {
        stack.freed_lifetime = FreedLifetime{0.0021, 0.649, 42.7};
    }
    if (stack.live.blocks > 0) {
        stack.oldest_live_s = kDuration - 2.25;
    }
    const double stays =
        how.verdict >= Verdict::growing ? how.left(300, 300) * how.blocks_per_s : 0;
    stack.judgement = Judgement{how.verdict, stays * static_cast<double>(how.block_size),
                                how.reason, stays, stays * static_cast<double>(how.block_size)};
    return stack;
}

/// `own` between the allocator and the thread's begin, as the demo's server has it.
Backtrace through(std::initializer_list<SourceFrame> own) {
    std::vector<ResolvedFrame> frames;
    const auto add = [&frames](SourceFrame f) {
        frames.push_back(std::make_shared<const std::vector<SourceFrame>>(1, std::move(f)));
    };
    add(frame(0x7f348f6b6930, "libc.so.6", "malloc", 0, "./malloc/malloc.c", 3281));
    add(frame(0x7f348f8a958c, "libstdc++.so.6.0.30", "operator new(unsigned long)", 28));
    std::for_each(own.begin(), own.end(), add);
    add(frame(0x556949137bc1, "shopd", "shop::Server::serve()", 369, "src/shop/server.cpp", 119));
    add(frame(0x7f348f8d44a3, "libstdc++.so.6.0.30"));
    add(frame(0x7f348f6a71f5, "libc.so.6", "start_thread", 773, "./nptl/pthread_create.c", 442));
    add(frame(0x7f348f7278ec, "libc.so.6", "clone3", 44,
              "../sysdeps/unix/sysv/linux/x86_64/clone3.S", 81));
    return Backtrace(std::move(frames));
}

Backtrace in_session(std::uint64_t pc, const char* function, unsigned line) {
    return through(
        {frame(pc, "shopd", function, 31, "src/shop/session_store.cpp", line),
         frame(0x5569491370d0, "shopd", "shop::Server::login(shop::Request const&) [clone .isra.0]",
               16, "src/shop/server.cpp", 147)});
}

Backtrace in_page(std::uint64_t pc, const char* function, unsigned line) {
    return through(
        {frame(
             pc + 64, "shopd",
             "std::_Function_handler<void (shop::Page&), shop::Renderer>::_M_invoke(std::_Any_data "
             "const&, shop::Page&)",
             {}, "/usr/include/c++/12/bits/std_function.h", 290, true),
         frame(pc, "shopd", function, 88, "src/shop/page_cache.cpp", line),
         frame(0x556949137310, "shopd", "shop::Server::browse(shop::Request const&)", 201,
               "src/shop/server.cpp", 171)});
}

double all(double /*age*/, double /*at*/) {
    return 1;
}
double some(double /*age*/, double /*at*/) {
    return 0.34;
}
double few(double age, double /*at*/) {
    return age < 2 ? 1 : 0.125;
}
double at_first(double age, double at) {
    return at < 30 ? 1 : age < 3 ? 0.5 : 0;
}
double none(double age, double /*at*/) {
    return age < 5 ? 0.6 : 0;
}

/// What stands between two texts, of which there must be one each.
std::string between(const std::string& text, const std::string& before, const std::string& after) {
    const auto begin = text.find(before);
    EXPECT_NE(begin, std::string::npos) << before;
    EXPECT_EQ(text.find(before, begin + 1), std::string::npos) << before;
    const auto end = text.find(after, begin);
    EXPECT_NE(end, std::string::npos) << after;
    return text.substr(begin + before.size(), end - begin - before.size());
}

} // namespace

Report server_report() {
    Report report;
    report.version = "2.0.0";
    report.target = {16129, "/usr/local/bin/shopd", "x86_64", 12};
    report.session = {
        "int3", "memleax", kDuration, 10, "user", 0, {184203, 171377, 5120, 0, 812, 0}};
    report.callstacks = {
        call_stack({9, Verdict::too_early, 256, 0, all, reason::SeenShortly{4}},
                   through({frame(0x556949139001, "shopd", "shop::Metrics::open_window()", 12,
                                  "src/shop/metrics.cpp", 57)})),
        call_stack({4, Verdict::settled, 1500, 140, none, reason::OldFreed{82600, 9.4}},
                   in_page(0x556949138000, "shop::render(shop::Page const&)", 91)),
        call_stack({6, Verdict::settled, 64, 90, none, reason::OldFreed{53100, 9.4}},
                   through({frame(0x556949138800, "shopd", "shop::parse_query(std::string_view)",
                                  61, "src/shop/request.cpp", 33)})),
        call_stack({2, Verdict::plateau, 4100, 12, at_first, reason::FewLately{360, 0, 75}},
                   in_page(0x556949138400, "shop::PageCache::find_or_insert(unsigned int)", 44)),
        call_stack({7, Verdict::plateau, 96, 12, at_first, reason::FewLately{360, 0, 75}},
                   through({frame(0x7f3490001234, "libpq.so.5.15")})),
        call_stack({5, Verdict::growing, 320, 8, few, reason::Stay{0.125, 590, false}},
                   through({frame(0x556949138c00, "shopd",
                                  "void shop::AuditLog::append<shop::Login>(shop::Login const&)",
                                  40, "src/shop/audit_log.hpp", 72)})),
        call_stack({3, Verdict::leaking, 120, 3, some, reason::StayForGood{0.34, 8, 8, 600}},
                   in_session(0x556949136d00,
                              "shop::SessionStore::remember(std::string const&, unsigned int)",
                              58)),
        call_stack({1, Verdict::leaking, 2040, 1, all, reason::StayForGood{1, 8, 8, 600}},
                   in_session(0x556949136c4f, "shop::SessionStore::open(unsigned int)", 40)),
    };
    CallStackReport& young = report.callstacks.front();
    young.intervals.back().alloc = young.intervals.back().live = {3, 768};
    young.alloc = young.live = {3, 768};
    young.oldest_live_s = 4;
    report.callstacks[4].end = StackEnd::no_rule;
    for (const CallStackReport& stack : report.callstacks) {
        report.totals.live.blocks += stack.live.blocks;
        report.totals.live.bytes += stack.live.bytes;
        report.totals.expired.blocks += stack.may_leak().blocks;
        report.totals.expired.bytes += stack.may_leak().bytes;
    }
    constexpr unsigned kSamples = 120;
    for (unsigned i = 0; i <= kSamples; ++i) {
        const double time = kDuration * i / kSamples;
        const double part = i / double{kSamples};
        const double filled = std::min(1.0, time / 30) * 0.45 + part * 0.55;
        const double wave = std::sin(i * 0.9) * 0.012 + std::sin(i * 0.23) * 0.015;
        const double live = static_cast<double>(report.totals.live.bytes) *
                            std::clamp(filled + (i % kSamples == 0 ? 0 : wave), 0.0, 1.0);
        const double rss = 47.0e6 + live * 1.2 + std::floor(part * 12) * 2e5;
        report.memory.push_back(
            {time, static_cast<std::uint64_t>(live), static_cast<std::uint64_t>(rss)});
    }
    return report;
}

Report short_of_memory_report() {
    Report report = server_report();
    constexpr std::uint64_t kLimit = 60 << 20;
    std::uint64_t i = 0;
    for (Report::MemorySample& sample : report.memory) {
        if (i > 0) {
            sample.group_bytes = i << 20;
            sample.group_limit = kLimit;
        }
        sample.available_bytes = (std::uint64_t{8} << 30) - (i << 20);
        sample.machine_stalled_us = 1000 * i;
        ++i;
    }
    MemoryLook look;
    look.group.folder = "/sys/fs/cgroup/app";
    look.group.limit = kLimit;
    look.group.current = 57 << 20;
    look.machine.available = std::uint64_t{8} << 30;
    report.processes.resize(1);
    report.processes[0].looks = MemoryLooks{look, look};
    return report;
}

Report leak_check_report() {
    Report report = sample_report();
    LeakRecord lost;
    lost.loss = LossClass::definite;
    lost.size = 101;
    lost.count = {15, 1515};
    lost.addresses = {RemoteAddr(0x7f01), RemoteAddr(0x7f81)};
    lost.callstack = 3;
    lost.frames = small_stack();
    LeakRecord with_it;
    with_it.loss = LossClass::indirect;
    with_it.size = 24;
    with_it.count = {2, 48};
    with_it.addresses = {RemoteAddr(0x8010), RemoteAddr(0x8030)};
    LeakRecord held;
    held.loss = LossClass::reachable;
    held.count = {6, 4200};
    held.type = "shop::Session";
    held.holders = {{"shop::g_sessions, server.cpp", 5}, {"stack of thread 7", 1}};
    LeakRecord other;
    other.loss = LossClass::reachable;
    other.size = 96;
    other.count = {1, 96};
    other.holders = {{"shop::g_sessions, server.cpp", 1}};
    LeakFindings& findings = report.leak_check.emplace();
    findings.pause_s = 0.0125;
    findings.complete = true;
    findings.records = {lost, with_it, held, other};
    for (const LeakRecord& record : findings.records) {
        BlockCount& total = findings.totals.at(static_cast<std::size_t>(record.loss));
        total = total + record.count;
    }
    return report;
}

Report large_report(std::uint32_t stacks, std::uint32_t depth) {
    constexpr std::uint32_t kFunctions = 5000;
    std::vector<ResolvedFrame> frames;
    for (std::uint32_t i = 0; i < kFunctions; ++i) {
        frames.push_back(std::make_shared<const std::vector<SourceFrame>>(
            1,
            frame(0x400000 + i * 64, fmt::format("libpart{}.so", i % 20),
                  fmt::format("part{}::Worker<int, std::allocator<int> >::step_{}(unsigned long)",
                              i % 20, i),
                  i % 60, fmt::format("src/part{}/worker.cpp", i % 20), i)));
    }
    Report report = server_report();
    const std::vector<IntervalReport> intervals = report.callstacks.back().intervals;
    report.callstacks.clear();
    for (std::uint32_t i = 0; i < stacks; ++i) {
        CallStackReport stack;
        stack.id = i + 1;
        // The further out, the fewer different functions: near the root they share their callers.
        std::vector<ResolvedFrame> path;
        std::uint32_t random = i * 2654435761U;
        for (std::uint32_t d = 0; d < depth; ++d) {
            random = random * 1664525U + 1013904223U;
            const std::uint32_t choice = depth - d < 4 ? 3 : kFunctions;
            path.push_back(frames[(random >> 8) % choice]);
        }
        stack.frames = Backtrace(std::move(path));
        stack.intervals = intervals;
        stack.alloc = {i + 1000ULL, (i + 1000ULL) * 48};
        stack.live = stack.expired = {i % 1000 + 1, (i % 1000 + 1ULL) * 48};
        stack.free = stack.alloc - stack.live;
        stack.judgement = Judgement{static_cast<Verdict>(i % 5), i * 1.0,
                                    reason::NothingAllocated{}, i * 0.25, i * 12.0};
        report.totals.live.blocks += stack.live.blocks;
        report.totals.live.bytes += stack.live.bytes;
        report.callstacks.push_back(std::move(stack));
    }
    return report;
}

std::string html_verdict(const std::string& page) {
    return between(page, "aria-label=\"Verdict\">\n", "</section>");
}

nlohmann::json html_data(const std::string& page) {
    return nlohmann::json::parse(
        between(page, "<script id=\"data\" type=\"application/json\">", "</script>"));
}

} // namespace memleax
