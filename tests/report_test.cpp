// SPDX-License-Identifier: GPL-3.0-or-later
// The text that people read: live lines, backtraces and the final report. JSON: json_report_test.
#include "memleax/report/report.hpp"

#include <gtest/gtest.h>

#include "memleax/report/live_lines.hpp"
#include "report_support.hpp"

namespace memleax {
namespace {

TEST(BacktraceText, FramesWithAllThatIsKnown) {
    EXPECT_EQ(backtrace_text(small_stack(), StackEnd::outermost, 4),
              "    0x00007fd322bd8220  libc.so.6  malloc()+0\n"
              "    0x000000000040084e  test  foo()+14  foo.c:12\n");
}

TEST(BacktraceText, InlinedFrames) {
    const Backtrace frames{frame(0x401136, "app", "grow", {}, "b.cpp", 7, true),
                           frame(0x401136, "app", "ns::Box<int>::put(int)", 54, "b.cpp", 20)};
    EXPECT_EQ(backtrace_text(frames, StackEnd::outermost, 0),
              "0x0000000000401136  app  grow() [inlined]  b.cpp:7\n"
              "0x0000000000401136  app  ns::Box<int>::put(int)+54  b.cpp:20\n");
}

TEST(BacktraceText, WhatIsNotKnownIsLeftOut) {
    const Backtrace frames{frame(1),
                           frame(2, "app"),
                           frame(3, "app", "f"),
                           frame(4, "app", "", {}, "a.S", 3),
                           frame(5, "app", "g", 1, "g.c"),
                           frame(~0ULL, "", "jit", ~0ULL)};
    EXPECT_EQ(backtrace_text(frames, StackEnd::outermost, 0),
              "0x0000000000000001  ?\n"
              "0x0000000000000002  app\n"
              "0x0000000000000003  app  f()\n"
              "0x0000000000000004  app  ?()  a.S:3\n"
              "0x0000000000000005  app  g()+1  g.c\n"
              "0xffffffffffffffff  ?  jit()+18446744073709551615\n");
}

TEST(BacktraceText, ParenthesesForNamesWithoutParameters) {
    const auto line = [](const char* function) {
        return backtrace_text(Backtrace{frame(0, "m", function)}, StackEnd::outermost, 0)
            .substr(sizeof "0x0000000000000000  m  " - 1);
    };
    EXPECT_EQ(line("main"), "main()\n");
    EXPECT_EQ(line("run(int) const"), "run(int) const\n");
    EXPECT_EQ(line("(anonymous namespace)::leak"), "(anonymous namespace)::leak()\n");
    EXPECT_EQ(line("(anonymous namespace)::leak(int)"), "(anonymous namespace)::leak(int)\n");
    EXPECT_EQ(line("alloc::vec::Vec<T>::push"), "alloc::vec::Vec<T>::push()\n");
}

TEST(BacktraceText, NamesAreFoldedUnlessTheyAreWantedWhole) {
    const Backtrace frames{
        frame(1, "app", "std::vector<int, std::allocator<int> >::grow()", {}, "/usr/v.h", 7, true),
        frame(1, "app", "std::vector<int, std::allocator<int> >::put(int)", {}, "/usr/v.h", 9,
              true),
        frame(1, "app", "shop::load()", 54, "/src/shop.cpp", 20),
        frame(2, "app", "std::sort(int*)", {}, "/usr/sort.h", 3, true),
        frame(2, "app", "main", 4, "/src/main.cpp", 5)};
    EXPECT_EQ(backtrace_text(frames, StackEnd::outermost, 0, NameStyle::folded),
              "0x0000000000000001  app  2 frames of std [inlined]\n"
              "0x0000000000000001  app  shop::load()+54  shop.cpp:20\n"
              "0x0000000000000002  app  std::sort(int*) [inlined]  sort.h:3\n"
              "0x0000000000000002  app  main()+4  main.cpp:5\n");
    EXPECT_EQ(
        backtrace_text(frames, StackEnd::outermost, 0, NameStyle::whole),
        "0x0000000000000001  app  std::vector<int, std::allocator<int> >::grow() [inlined]  "
        "/usr/v.h:7\n"
        "0x0000000000000001  app  std::vector<int, std::allocator<int> >::put(int) [inlined]  "
        "/usr/v.h:9\n"
        "0x0000000000000001  app  shop::load()+54  /src/shop.cpp:20\n"
        "0x0000000000000002  app  std::sort(int*) [inlined]  /usr/sort.h:3\n"
        "0x0000000000000002  app  main()+4  /src/main.cpp:5\n");
}

TEST(BacktraceText, TruncatedStack) {
    EXPECT_EQ(backtrace_text(small_stack(), StackEnd::limit, 2),
              "  0x00007fd322bd8220  libc.so.6  malloc()+0\n"
              "  0x000000000040084e  test  foo()+14  foo.c:12\n"
              "  (no further frames: backtrace limit)\n");
    EXPECT_EQ(backtrace_text({}, StackEnd::no_rule, 1),
              " (no further frames: no unwind information)\n");
}

TEST(BacktraceText, NamesCannotForgeLines) {
    EXPECT_EQ(backtrace_text({frame(0, "a\nb\x1b[2J", "f\r", {}, "\t", 1)}, StackEnd::outermost, 0),
              "0x0000000000000000  a?b?[2J  f?()  ?:1\n");
}

TEST(LiveLines, TheOriginals) {
    EXPECT_EQ(expired_first(3, 101, small_stack(), StackEnd::outermost),
              "CallStack[3]: memory expires with 101 bytes, backtrace:\n"
              "    0x00007fd322bd8220  libc.so.6  malloc()+0\n"
              "    0x000000000040084e  test  foo()+14  foo.c:12\n");
    EXPECT_EQ(expired_again(3, 18446744073709551615U, 10),
              "CallStack[3]: memory expires with 18446744073709551615 bytes, 10 times by now\n");
    EXPECT_EQ(freed_after_expiry(6, 10), "CallStack[6]: expired-memory frees after 10 seconds\n");
    EXPECT_EQ(freed_after_expiry(6, 0.25),
              "CallStack[6]: expired-memory frees after 0.25 seconds\n");
    EXPECT_EQ(too_many_expired_free(6),
              "Warning: too many expired-free at CallStack[6]. will not show this CallStack "
              "later\n");
}

TEST(LiveLines, MemoryErrors) {
    const Backtrace freeing{frame(0x10, "m", "f")};
    MemoryError error;
    error.number = 2;
    error.count = 1;
    error.address = error.block = RemoteAddr(0x55d0);
    EXPECT_EQ(memory_error({error, 0, freeing, {}, small_stack()}),
              "Error[2]: the block at 0x55d0 is freed a second time, here:\n"
              "    0x0000000000000010  m  f()\n"
              "  it was allocated here:\n"
              "    0x00007fd322bd8220  libc.so.6  malloc()+0\n"
              "    0x000000000040084e  test  foo()+14  foo.c:12\n");
    EXPECT_EQ(memory_error({error, 0, {}, freeing, freeing}),
              "Error[2]: the block at 0x55d0 is freed a second time\n"
              "  it was freed here:\n"
              "    0x0000000000000010  m  f()\n"
              "  it was allocated here:\n"
              "    0x0000000000000010  m  f()\n");
    error.kind = MemoryError::Kind::inside_block;
    error.block = RemoteAddr(0x55cf);
    error.size = 8;
    error.count = 10;
    error.by_realloc = true;
    EXPECT_EQ(memory_error({error, 0, {}, {}, {}}),
              "Error[2]: realloc of 0x55d0, which is 1 byte inside the block of 8 bytes at 0x55cf, "
              "10 times\n");
}

TEST(LiveLines, Limits) {
    EXPECT_EQ(block_limit_reached(3, 1000),
              "\n== 1000 memory blocks expired at CallStack[3]: the limit is reached "
              "(--memory-block-max).\n");
    EXPECT_EQ(block_limit_reached(3, 1),
              "\n== 1 memory block expired at CallStack[3]: the limit is reached "
              "(--memory-block-max).\n");
    EXPECT_EQ(stack_limit_reached(1000),
              "\n== 1000 CallStacks with expired memory: the limit is reached "
              "(--call-stack-max).\n"
              "-- If these are no leaks, blocks live longer here: try a larger --expire.\n");
}

TEST(SecondsText, DecimalsThatMatter) {
    const std::pair<double, const char*> cases[] = {
        {0, "0"},        {10, "10"},      {2.5, "2.5"},    {0.034, "0.034"}, {0.00001, "0"},
        {1.234, "1.23"}, {12.34, "12.3"}, {9.9999, "10"},  {99.99, "100"},   {123.4, "123"},
        {100, "100"},    {0.5004, "0.5"}, {86400, "86400"}};
    for (const auto& [value, text] : cases) {
        EXPECT_EQ(seconds_text(value), text) << value;
    }
}

TEST(TextReport, Whole) {
    EXPECT_EQ(text_of(write_text, sample_report()), R"(
Not judged, for want of intervals: 3 call stacks hold 2.1 KiB in 22 blocks
== Watched 4711 (/usr/bin/test) for 12.3 s; the time is up.
== Seen: 1001 allocations, 1 free, 2 reallocations; 3 failed, 4 frees of unknown blocks, 1 double free.
== Callstack statistics: (in ascending order)

CallStack[7]: may-leak=1 (5 bytes)
    expired=3 (30 bytes), free_expired=2 (25 bytes)
    alloc=9 (90 bytes), free=8 (85 bytes)
    freed memory live time: min=0.5 max=11 average=2.25
    un-freed memory live time: max=12.5
    (no further frames: no unwind information)

CallStack[3]: may-leak=20 (2020 bytes)
    expired=20 (2020 bytes), free_expired=0 (0 bytes)
    alloc=20 (2020 bytes), free=0 (0 bytes)
    freed memory live time: min=0 max=0 average=0
    un-freed memory live time: max=20
    0x00007fd322bd8220  libc.so.6  malloc()+0
    0x000000000040084e  test  foo()+14  foo.c:12

== 2 call stacks may leak: 2025 bytes in 21 blocks older than 10 s; live in all: 22 (2125 bytes).
)");
}

// The sum does not suspect what the verdicts clear.
TEST(TextReport, TheSumGoesByTheVerdicts) {
    const auto sum_of = [](const Report& report) {
        const std::string text = text_of(write_text, report);
        return text.substr(text.rfind("== "));
    };
    Report report = sample_report();
    report.callstacks[1].judgement = judged(Verdict::settled, reason::OldFreed{});
    EXPECT_EQ(sum_of(report), "== 1 call stack may leak: 2020 bytes in 20 blocks older than 10 s; "
                              "1 call stack settled or at a plateau: 5 bytes in 1 block older than "
                              "10 s; live in all: 22 (2125 bytes).\n");
    report.callstacks[2].judgement = judged(Verdict::plateau, reason::NoneLately{});
    EXPECT_EQ(sum_of(report), "== 2 call stacks settled or at a plateau: 2025 bytes in 21 blocks "
                              "older than 10 s; live in all: 22 (2125 bytes).\n");
    // None of whose blocks need be old.
    report.callstacks[0].judgement =
        judged(Verdict::growing, reason::EverLarger{{1, 100}, 20}, 0, 5);
    report.callstacks.erase(report.callstacks.begin() + 1, report.callstacks.end());
    EXPECT_TRUE(report.callstacks[0].is_suspect());
    const std::string text = text_of(write_text, report);
    EXPECT_NE(text.find("CallStack[9]: may-leak=0 (0 bytes)\n    verdict: growing, 421.9 KiB a day "
                        "(1 block, replaced by ever larger ones for 20 s; it may be a buffer that "
                        "fills)\n"),
              std::string::npos)
        << text;
    EXPECT_EQ(sum_of(report), "== 1 call stack may leak: 100 bytes in 1 block replaced by ever "
                              "larger ones; live in all: 22 (2125 bytes).\n");
}

TEST(TextReport, EmptyAndEndReasons) {
    Report report;
    report.target = {.pid = 1, .exe = "/x\ny", .arch = "x86_64", .threads = 1};
    const std::pair<const char*, const char*> reasons[] = {{"user", "ended by the user"},
                                                           {"time", "the time is up"},
                                                           {"target-exit", "the process has ended"},
                                                           {"limit", "a limit is reached"}};
    for (const auto& [reason, words] : reasons) {
        report.session.end_reason = reason;
        EXPECT_EQ(text_of(write_text, report),
                  "\nNothing to judge: no allocation was seen\n== Watched 1 (/x?y) for 0 s; " +
                      std::string(words) +
                      ".\n== Seen: 0 allocations, 0 frees, 0 reallocations; 0 failed, 0 frees of "
                      "unknown blocks, 0 double frees.\n== No expired memory blocks.\n"
                      "== Live in all: 0 (0 bytes).\n");
    }
}

TEST(TextReport, SaysWhatTheWatchingCost) {
    Report report = sample_report();
    report.session.stops = {.running = 995, .stopped = 5};
    const std::string line =
        "\n== Stopped for memleax: 0.5% of the time in which its threads would "
        "have run (5 of 1000 looks)";
    EXPECT_NE(text_of(write_text, report).find(line + ".\n"), std::string::npos);
    report.session.calls.all = 12;
    report.session.calls.stopped = 2;
    EXPECT_NE(text_of(write_text, report)
                  .find(line + "; what 10 calls without a stop took is not measured.\n"),
              std::string::npos);
    report.session.stops = {.running = 0, .stopped = 1};
    report.session.calls = {};
    EXPECT_NE(text_of(write_text, report)
                  .find("\n== Stopped for memleax at 1 of 1 look at which its threads would have "
                        "run: too few to tell a share of the time.\n"),
              std::string::npos);
}

TEST(TextReport, TellsHowTheProcessHasEnded) {
    Report report;
    report.session.end_reason = "target-exit";
    report.processes.resize(1);
    const auto text = [&report](std::optional<int> status) {
        report.processes[0].status = status;
        return text_of(write_text, report);
    };
    EXPECT_NE(text(7 << 8).find("; the process has ended: exit status 7.\n"), std::string::npos);
    EXPECT_NE(text(9).find("; the process has ended: killed by signal 9.\n"), std::string::npos);
    EXPECT_NE(text({}).find("; the process has ended.\n"), std::string::npos);
}

TEST(TextReport, ShowsTheVerdictOfACallStack) {
    Report report = sample_report();
    report.callstacks[1].judgement =
        judged(Verdict::plateau, reason::NoneLately{.left = 1, .lately_s = 40}, 1, 9);
    report.callstacks[2].judgement = judged(
        Verdict::growing, reason::Stay{.share = 1, .during_s = 20, .may_fill_up = true}, 2, 1500);
    const std::string text = text_of(write_text, report);
    EXPECT_NE(text.find("CallStack[7]: may-leak=1 (5 bytes)\n"
                        "    verdict: plateau (1 block left, none of the last 40 s)\n"
                        "    expired=3 "),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("    verdict: growing, 5.1 MiB an hour (100% of blocks stay for 20 s; "
                        "2 blocks/s; it may be a cache that fills)\n"),
              std::string::npos)
        << text;
}

TEST(TextReport, ShowsALeakBeforeItExpires) {
    Report report = sample_report();
    report.callstacks[2].expired = {};
    report.callstacks[2].judgement =
        judged(Verdict::leaking, reason::StayForGood{.share = 1}, 1, 100);
    EXPECT_NE(text_of(write_text, report).find("CallStack[3]: may-leak=0 (0 bytes)\n"),
              std::string::npos);
}

TEST(TextReport, CallStacksOfBlocksThatAreSetAside) {
    Report report = sample_report();
    report.callstacks.resize(1); // whose blocks are young
    report.callstacks[0].untracked = {5, 505};
    report.callstacks.insert(report.callstacks.begin(), 11, report.callstacks[0]);
    report.callstacks[3].untracked = {9, 900};
    const std::string text = text_of(write_text, report);
    EXPECT_NE(text.find("== Set aside: nobody knows whether these blocks are freed (10 of 12 call "
                        "stacks).\n\nCallStack[9]: not_followed=5 (505 bytes)\n"),
              std::string::npos)
        << text;
    EXPECT_NE(text.find("CallStack[9]: not_followed=9 (900 bytes)\n"), std::string::npos);
    report.callstacks.resize(1);
    report.callstacks[0].untracked = {};
    EXPECT_EQ(text_of(write_text, report).find("Set aside"), std::string::npos);
}

constexpr const char* kNothingElse = " indirectly lost:            0 B in 0 blocks\n"
                                     "   possibly lost:            0 B in 0 blocks\n"
                                     " still reachable:            0 B in 0 blocks\n";

TEST(TextReport, LeakCheckOfEachProcess) {
    const std::string first = fmt::format("== Leak check (the process stood still for 1.0 ms):\n"
                                          " definitely lost:          100 B in 1 block\n{}"
                                          "definitely lost: 1 block of 100 bytes at 0x10\n"
                                          "\n== Process 8 (worker, /bin/worker).\n",
                                          kNothingElse);
    const std::string both = text_of(write_text, leak_checks_of_two(true));
    EXPECT_LT(both.find("\n== Process 7 (server, /bin/server).\n"), both.find(first)) << both;
    EXPECT_NE(both.find(first), std::string::npos) << both;
    EXPECT_NE(both.find(fmt::format("== Leak check (the process stood still for 2.0 ms):\n"
                                    " definitely lost:          101 B in 1 block\n{0}"
                                    "definitely lost: 1 block of 101 bytes at 0x10\n"
                                    "\n== Leak check of all 2 processes:\n"
                                    " definitely lost:          201 B in 2 blocks\n{0}\n"
                                    "== Live in all",
                                    kNothingElse)),
              std::string::npos)
        << both;
    const std::string one = text_of(write_text, leak_checks_of_two(false));
    EXPECT_NE(one.find(first), std::string::npos) << one;
    EXPECT_NE(one.find(fmt::format("== Leak check (the process stood still for 2.0 ms):\n"
                                   "incomplete: it has ended\nnothing is said of any block\n"
                                   "\n== Leak check of 1 of 2 processes:\n"
                                   " definitely lost:          100 B in 1 block\n{}",
                                   kNothingElse)),
              std::string::npos)
        << one;
}

TEST(TextReport, CallStacksWithoutALeakAreNotShown) {
    Report report = sample_report();
    report.callstacks.erase(report.callstacks.begin() + 1, report.callstacks.end());
    report.totals.live = {3, 75};
    EXPECT_NE(text_of(write_text, report)
                  .find("== No expired memory blocks.\n== Live in all: 3 (75 bytes).\n"),
              std::string::npos);
    EXPECT_EQ(text_of(write_text, report).find("CallStack["), std::string::npos);
}

} // namespace
} // namespace memleax
