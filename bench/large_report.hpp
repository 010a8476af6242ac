// SPDX-License-Identifier: GPL-3.0-or-later
/// A report of 10^5 call stacks of 50 frames, as a large program gives it after a long time. Its
/// frames follow each other at random, which is worse than any program's: there are 4.9 million
/// different calls.
#pragma once

#include <memory>
#include <random>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "memleax/report/report_writer.hpp"

namespace memleax {

inline Report large_report(std::size_t stacks = 100'000, std::size_t depth = 50,
                           std::size_t distinct_frames = 5000) {
    constexpr std::size_t kModules = 50;
    constexpr std::size_t kLinesOfFunction = 4;
    constexpr std::uint64_t kModuleSize = 0x100000;
    constexpr std::uint64_t kBase = 0x7f0000000000;
    Report report;
    report.version = "2.0.0";
    report.target = {4711, "/opt/shop/bin/server", "x86_64", 64};
    report.session.engine = "int3";
    report.session.end_reason = "time";
    report.session.duration_s = 3600;
    for (std::size_t i = 0; i < kModules; ++i) {
        const std::uint64_t begin = kBase + i * kModuleSize;
        report.modules.push_back({fmt::format("/opt/shop/lib/libpart{}.so", i),
                                  fmt::format("{:040x}", i + 1),
                                  {begin, begin + kModuleSize},
                                  0});
    }
    std::vector<ResolvedFrame> frames;
    for (std::size_t i = 0; i < distinct_frames; ++i) {
        const std::size_t module = i % kModules;
        const std::size_t function = i / kLinesOfFunction;
        SourceFrame frame;
        frame.pc = CodeAddr(kBase + module * kModuleSize + i * 16);
        frame.module = fmt::format("libpart{}.so", module);
        frame.function = fmt::format("shop::Part<int, std::string>::step_{}(shop::Request const&, "
                                     "std::vector<int, std::allocator<int>>&)",
                                     function);
        frame.offset = 16;
        frame.file = fmt::format("/src/shop/part_{}.cpp", function / 10);
        frame.line = static_cast<unsigned>(i % 1000 + 1);
        frame.is_return_address = true;
        std::vector<SourceFrame> calls(1, frame);
        if (i % 3 == 0) {
            SourceFrame inlined = frame;
            inlined.function = fmt::format("shop::detail::append_{}(int)", function);
            inlined.offset.reset();
            inlined.inlined = true;
            calls.insert(calls.begin(), inlined);
        }
        frames.push_back(std::make_shared<const std::vector<SourceFrame>>(std::move(calls)));
    }
    std::mt19937 random(1);
    std::uniform_int_distribution<std::size_t> any(0, frames.size() - 1);
    report.callstacks.reserve(stacks);
    for (std::size_t i = 0; i < stacks; ++i) {
        CallStackReport& stack = report.callstacks.emplace_back();
        stack.id = i + 1;
        stack.alloc = {i + 1, (i + 1) * 48};
        stack.live = stack.expired = {i % 1000 + 1, (i % 1000 + 1) * 48};
        stack.free = stack.alloc - stack.live;
        stack.oldest_live_s = 1;
        stack.end = i % 10 == 0 ? StackEnd::limit : StackEnd::outermost;
        report.totals.live.blocks += stack.live.blocks;
        report.totals.live.bytes += stack.live.bytes;
        std::vector<ResolvedFrame> path;
        path.reserve(depth);
        for (std::size_t frame = 0; frame < depth; ++frame) {
            path.push_back(frames[any(random)]);
        }
        stack.frames = Backtrace(std::move(path));
    }
    report.totals.expired = report.totals.live;
    return report;
}

/// Counts, and keeps nothing.
class CountingSink final : public ReportSink {
  public:
    void write(std::string_view piece) override { bytes += piece.size(); }
    std::uint64_t bytes = 0;
};

} // namespace memleax
