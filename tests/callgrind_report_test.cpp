// SPDX-License-Identifier: GPL-3.0-or-later
// The graph of functions: as text, and as callgrind_annotate (from valgrind) understands it.
#include <algorithm>
#include <map>
#include <random>
#include <regex>
#include <set>
#include <sstream>

#include <gtest/gtest.h>

#include "child_process_support.hpp"
#include "elf_support.hpp"
#include "program_support.hpp"
#include "report_support.hpp"

namespace memleax {
namespace {

/// Figures of a function, in the order of the events.
using Cost = std::vector<std::uint64_t>;
using Costs = std::map<std::string, Cost>; ///< by "file:function [object]"

Cost cost_of(const CallStackReport& stack) {
    return {stack.live.bytes,        stack.live.blocks, stack.may_leak().bytes,
            stack.may_leak().blocks, stack.alloc.bytes, stack.alloc.blocks};
}

void add_to(Cost& sum, const Cost& cost) {
    sum.resize(cost.size());
    std::transform(sum.begin(), sum.end(), cost.begin(), sum.begin(), std::plus<>());
}

/// Those that have it read by valgrind's program.
class CallgrindAnnotated : public ::testing::Test {
  protected:
    void SetUp() override {
        if (!testing::has_program("callgrind_annotate")) {
            GTEST_SKIP() << "valgrind is not installed";
        }
    }
};

/// What callgrind_annotate prints of every function that has a cost, and the totals by "".
Costs annotate(const Report& report, bool inclusive) {
    const test::TemporaryFolder folder;
    test::write_file(folder.file("callgrind.out"), text_of(write_callgrind, report));
    testing::ChildProcess process(
        {"callgrind_annotate", "--auto=no", "--show-percs=no", "--threshold=100",
         inclusive ? "--inclusive=yes" : "--inclusive=no", folder.file("callgrind.out")});
    EXPECT_EQ(process.wait_for_end(), 0);
    EXPECT_EQ(process.errors(), "");
    Costs costs;
    std::istringstream lines(process.output());
    const std::regex cost_line(R"(\s*((?:[\d,]+\s+){6})(\S.*))");
    for (std::string line; std::getline(lines, line);) {
        std::smatch match;
        if (!std::regex_match(line, match, cost_line)) {
            continue;
        }
        std::string figures = match[1];
        figures.erase(std::remove(figures.begin(), figures.end(), ','), figures.end());
        std::istringstream words(figures);
        Cost cost;
        for (std::uint64_t figure = 0; words >> figure;) {
            cost.push_back(figure);
        }
        const std::string name = match[2];
        EXPECT_TRUE(costs.emplace(name == "PROGRAM TOTALS" ? "" : name, cost).second) << name;
    }
    return costs;
}

CallStackReport stack_of(Backtrace frames, std::uint64_t blocks, std::uint64_t bytes) {
    CallStackReport stack;
    stack.frames = std::move(frames);
    stack.alloc = {blocks * 3, bytes * 3};
    stack.live = {blocks, bytes};
    stack.expired = {blocks + 1, bytes + 1};
    stack.free_expired = {2, 2};
    return stack;
}

TEST(CallgrindReport, Whole) {
    Report report = sample_report();
    report.modules = {{"/usr/bin/test", "", {0x400000, 0x401000}, 0}};
    EXPECT_EQ(text_of(write_callgrind, report), R"(# callgrind format
version: 1
creator: memleax 2.0.0
pid: 4711
cmd: /usr/bin/test
desc: Trigger: end of the watching, after 12.345 s

positions: line
event: live_bytes : Live bytes
event: live_blocks : Live blocks
event: leak_bytes : Bytes that may leak
event: leak_blocks : Blocks that may leak
event: alloc_bytes : Allocated bytes
event: alloc_blocks : Allocated blocks
events: live_bytes live_blocks leak_bytes leak_blocks alloc_bytes alloc_blocks
summary: 2125 22 2025 21 2210 30
)"
                                                R"(
ob=(1) ???
fl=(1) ???
fn=(2) [thread start]
0 0
cob=(3) /usr/bin/test
cfi=(4) foo.c
cfn=(5) foo
calls=21 0
0 2120 21 2020 20 2120 21

ob=(3)
fl=(4)
fn=(5)
12 0
cob=(6) libc.so.6
cfi=(1)
cfn=(7) malloc
calls=21 0
12 2120 21 2020 20 2120 21

ob=(6)
fl=(1)
fn=(7)
0 2120 21 2020 20 2120 21

ob=(1)
fl=(1)
fn=(8) [no unwind information]
0 5 1 5 1 90 9
)");
}

TEST_F(CallgrindAnnotated, InlinedCallsAreFunctions) {
    Report report;
    report.callstacks = {
        stack_of({frame(1, "libc.so.6", "malloc"), frame(2, "app", "grow", {}, "b.hpp", 7, true),
                  frame(2, "app", "main", 5, "/src/b.cpp", 20)},
                 2, 64)};
    const Cost all{64, 2, 63, 1, 192, 6};
    EXPECT_EQ(annotate(report, true), (Costs{{"", all},
                                             {"???:[thread start] [???]", all},
                                             {"/src/b.cpp:main [app]", all},
                                             {"b.hpp:grow [app]", all},
                                             {"???:malloc [libc.so.6]", all}}));
    EXPECT_EQ(annotate(report, false), (Costs{{"", all}, {"???:malloc [libc.so.6]", all}}));
}

TEST_F(CallgrindAnnotated, RecursionCountsOnce) {
    const SourceFrame malloc = frame(1, "libc.so.6", "malloc");
    const SourceFrame f = frame(2, "app", "f", 1, "f.c", 2);
    const SourceFrame f_again = frame(3, "app", "f", 9, "f.c", 3);
    const SourceFrame g = frame(4, "app", "g", 1, "g.c", 4);
    Report report;
    report.callstacks = {
        stack_of({malloc, f, g, f_again, f, g}, 1, 8),
        stack_of({malloc, f}, 10, 80), // f begins this stack, and is called in the other
    };
    const Costs costs = annotate(report, true);
    EXPECT_EQ(costs.at("f.c:f [app]"), (Cost{88, 11, 86, 9, 264, 33}));
    EXPECT_EQ(costs.at("g.c:g [app]"), (Cost{8, 1, 7, 0, 24, 3}));
    EXPECT_EQ(costs.at("???:malloc [libc.so.6]"), costs.at(""));
    EXPECT_EQ(costs.at("???:[thread start] [???]"), costs.at(""));
}

/// Against the meaning of the words: own cost is that of the stacks that end in a function,
/// inclusive cost that of the stacks that it is in. No two objects have functions of one name:
/// callgrind_annotate, other than KCachegrind, takes those for one.
TEST_F(CallgrindAnnotated, AnyStacks) {
    std::mt19937 random(7);
    const auto below = [&random](std::size_t n) { return random() % n; };
    std::vector<ResolvedFrame> frames;
    for (std::uint64_t i = 0; i < 40; ++i) {
        std::vector<SourceFrame> calls{
            frame(i, "lib" + std::to_string(i % 2), "f" + std::to_string(i % 8), 0,
                  i % 8 < 4 ? "a.c" : "b.c", static_cast<unsigned>(i % 5))};
        if (i % 7 == 0) {
            calls.insert(calls.begin(), frame(i, calls[0].module, "g" + std::to_string(i % 2), {},
                                              "g.h", 9, true));
        }
        frames.push_back(std::make_shared<const std::vector<SourceFrame>>(std::move(calls)));
    }
    Report report;
    Costs own;
    Costs inclusive;
    for (std::uint64_t i = 0; i < 300; ++i) {
        std::vector<ResolvedFrame> path(1 + below(12));
        std::generate(path.begin(), path.end(), [&] { return frames[below(frames.size())]; });
        CallStackReport stack = stack_of(Backtrace(path), 1 + below(5), 1 + below(100));
        stack.end = below(3) == 0 ? StackEnd::limit : StackEnd::outermost;
        std::set<std::string> functions{stack.end == StackEnd::limit ? "???:[backtrace limit] [???]"
                                                                     : "???:[thread start] [???]"};
        const auto name = [](const SourceFrame& f) {
            return f.file + ":" + f.function + " [" + f.module + "]";
        };
        for (const SourceFrame& each : stack.frames) {
            functions.insert(name(each));
        }
        for (const std::string& function : functions) {
            add_to(inclusive[function], cost_of(stack));
        }
        add_to(own[name(*stack.frames.begin())], cost_of(stack));
        add_to(own[""], cost_of(stack));
        report.callstacks.push_back(std::move(stack));
    }
    inclusive[""] = own[""];
    EXPECT_EQ(annotate(report, false), own);
    EXPECT_EQ(annotate(report, true), inclusive);
}

TEST_F(CallgrindAnnotated, NamesBreakNoLine) {
    Report report;
    report.version = "2";
    report.target.exe = "/a\nevents: b";
    report.callstacks = {stack_of(
        {frame(1, "m\nx", "f\nfn=g", 0, "a\rb.c", 1), frame(2, "(1)", "(2) x", 0, "(3)", 1)}, 1,
        8)};
    const Cost all{8, 1, 7, 0, 24, 3};
    EXPECT_EQ(annotate(report, true), (Costs{{"", all},
                                             {"???:[thread start] [???]", all},
                                             {"(3):(2) x [(1)]", all},
                                             {"a?b.c:f?fn=g [m?x]", all}}));
}

TEST(CallgrindReport, Empty) {
    const std::string text = text_of(write_callgrind, Report{});
    EXPECT_NE(text.find("\nsummary: 0 0 0 0 0 0\n"), std::string::npos) << text;
}

} // namespace
} // namespace memleax
