// SPDX-License-Identifier: GPL-3.0-or-later
// What the text report begins with.
#include <string>

#include <gtest/gtest.h>

#include "report_support.hpp"

namespace memleax {
namespace {

/// The first line of the text.
std::string sentence_of(const Report& report) {
    const std::string text = text_of(write_text, report);
    return text.substr(1, text.find('\n', 1) - 1);
}

struct FirstSentence : testing::Test {
    FirstSentence() {
        report.callstacks.erase(report.callstacks.begin(), report.callstacks.begin() + 2);
        leak().frames = Backtrace{frame(1, "libc.so.6", "malloc"), frame(2, "libc.so.6", "strdup"),
                                  frame(3, "a", "parse_line(char*)", 4, "/src/leak.c", 7),
                                  frame(5, "a", "main")};
    }
    CallStackReport& leak() { return report.callstacks.back(); }
    Report report = sample_report();
};

TEST_F(FirstSentence, OfALeak) {
    const auto leaking = [](double bytes_per_s, double share = 0.4, double blocks_per_s = 1) {
        return judged(Verdict::leaking, reason::StayForGood{.share = share}, blocks_per_s,
                      bytes_per_s);
    };
    leak().judgement = leaking(5.2 * 1024 * 1024 / 3600);
    EXPECT_EQ(sentence_of(report),
              "LEAK: parse_line (leak.c:7) by way of strdup: 5.2 MiB an hour, 40 % never freed");
    report.callstacks.push_back(leak()); // another, which costs more
    leak().frames = small_stack();
    leak().judgement = leaking(2 * 1024 * 1024, 0.999);
    EXPECT_EQ(sentence_of(report), "LEAK: foo (foo.c:12): 2.0 MiB a second, over 99 % never freed; "
                                   "1 more call stack leaks");
    leak().judgement = leaking(0, 1, 0.01); // a resource
    leak().live = {3, 0};
    report.callstacks.erase(report.callstacks.begin());
    EXPECT_EQ(sentence_of(report), "LEAK: foo (foo.c:12): 36 blocks an hour, 100 % never freed");
    leak().judgement = leaking(100);
    leak().frames = Backtrace{frame(1, "libc.so.6", "calloc"), frame(0x11d1d, "memcached")};
    EXPECT_EQ(sentence_of(report),
              "LEAK: memcached+0x11d1d by way of calloc: 8.2 MiB a day, 40 % never freed");
    leak().frames = Backtrace{
        frame(1, "libc.so.6", "malloc"), frame(2, "app", "get_memory"),
        frame(3, "app", "std::vector<int, std::allocator<int> >::put", {}, "/src/v.h", 9)};
    leak().where = 2; // get_memory is a wrapper
    EXPECT_EQ(sentence_of(report), "LEAK: std::vector<int>::put (v.h:9) by way of get_memory: "
                                   "8.2 MiB a day, 40 % never freed");
    report.name_style = NameStyle::whole;
    EXPECT_EQ(sentence_of(report), "LEAK: std::vector<int, std::allocator<int> >::put (/src/v.h:9) "
                                   "by way of get_memory: 8.2 MiB a day, 40 % never freed");
}

TEST_F(FirstSentence, CallsNothingElseALeak) {
    leak().judgement = judged(
        Verdict::growing, reason::Stay{.share = 1, .during_s = 20, .may_fill_up = true}, 2, 1500);
    EXPECT_EQ(
        sentence_of(report),
        "GROWING: parse_line (leak.c:7) by way of strdup: 5.1 MiB an hour, 100 % not freed so "
        "far; too early to tell a leak from a cache that fills");
    leak().judgement =
        judged(Verdict::growing, reason::Stay{.share = 0.5, .during_s = 20}, 2, 1500);
    EXPECT_EQ(sentence_of(report),
              "GROWING: parse_line (leak.c:7) by way of strdup: 5.1 MiB an hour, 50 % not freed so "
              "far; too early to tell whether it leaks");
    leak().judgement = judged(Verdict::too_early, reason::SeenShortly{.seen_s = 4}, 2, 1500);
    EXPECT_EQ(sentence_of(report),
              "Too early to tell: 1 call stack holds 2.0 KiB in 20 blocks after 12.3 s");
    leak().expired = {}; // so that the text has no call stack
    report.session.duration_s = 1.5;
    EXPECT_EQ(sentence_of(report), "Too early to tell: 1 call stack holds 2.0 KiB in 20 blocks "
                                   "after 1.5 s; to see where, give a shorter --expire (10 s)");
    report.session.duration_s = 12.345;
    leak().expired = leak().live;
    report.callstacks.push_back(leak());
    leak().judgement = judged(Verdict::plateau, reason::NoneLately{.left = 20, .lately_s = 40});
    EXPECT_EQ(sentence_of(report), "No leak seen: 2 call stacks hold 3.9 KiB in 40 blocks; too "
                                   "early to tell of 1 of them (2.0 KiB)");
    report.callstacks.erase(report.callstacks.begin());
    EXPECT_EQ(sentence_of(report), "No leak seen: 1 call stack holds 2.0 KiB in 20 blocks, and "
                                   "nothing keeps growing");
    report.totals.leaking_stacks = 1;
    EXPECT_EQ(sentence_of(report), "No leak seen: 1 call stack holds 2.0 KiB in 20 blocks, and "
                                   "nothing keeps growing; hidden: 1 call stack called leaking");
    report.totals.leaking_stacks = 0;
    report.callstacks.clear();
    EXPECT_EQ(sentence_of(report),
              "Not judged: all that is still live is hidden by ignore or only");
    report.totals.live = {};
    EXPECT_EQ(sentence_of(report),
              "No leak seen: nothing that was allocated meanwhile is still live");
}

// A buffer that grows by realloc, or by a new block and a copy, is one block at any time.
TEST_F(FirstSentence, OfABlockThatGrows) {
    leak().live = {1, 323 * 1024 * 1024};
    leak().judgement = judged(Verdict::growing, reason::EverLarger{leak().live, 100}, 0, 1500);
    EXPECT_EQ(sentence_of(report),
              "GROWING: parse_line (leak.c:7) by way of strdup: 5.1 MiB an hour, 1 block has grown "
              "to 323.0 MiB; too early to tell a leak from a buffer that fills");
    report.callstacks.push_back(leak());
    leak().live = {2, 400 * 1024 * 1024};
    leak().judgement = judged(Verdict::growing, reason::EverLarger{leak().live, 100}, 0, 3000);
    EXPECT_EQ(sentence_of(report),
              "GROWING: parse_line (leak.c:7) by way of strdup: 10.3 MiB an hour, 2 blocks have "
              "grown to 400.0 MiB; too early to tell a leak from a buffer that fills; 1 more call "
              "stack grows");
}

// A pause sets aside what a look has found to be lost: its call stack still has a name.
TEST_F(FirstSentence, OfLostBlocksThatWereSetAside) {
    LeakFindings& found = report.leak_check.emplace();
    found.complete = true;
    const auto lost = [](LossClass loss, std::uint64_t stack, BlockCount count) {
        LeakRecord record;
        record.loss = loss;
        record.callstack = stack;
        record.count = count;
        return record;
    };
    leak().judgement = judged(Verdict::too_early, reason::SeenShortly{.seen_s = 4}, 2, 1500);
    report.callstacks.push_back(leak());
    report.callstacks.front().id = 4;
    report.callstacks.front().frames = small_stack();
    found.records = {lost(LossClass::definite, 0, {165, 220365}),
                     lost(LossClass::definite, 4, {500, 4000}),
                     lost(LossClass::definite, leak().id, {577, 4096}),
                     lost(LossClass::indirect, leak().id, {1, 1024}),
                     lost(LossClass::reachable, 4, {1, 1 << 20})};
    report.totals.untracked = {2540, 4 << 20};
    EXPECT_EQ(sentence_of(report),
              "LOST: parse_line (leak.c:7) by way of strdup: 5.0 KiB in 578 blocks that nothing "
              "points to any more; 1 more call stack has lost blocks; besides, lost: 215.2 KiB in "
              "165 blocks, allocated where nobody watched; but 4.0 MiB in 2540 blocks were set "
              "aside, of which nobody knows whether they are freed");
    found.records.erase(found.records.begin(), found.records.begin() + 2);
    report.totals.untracked = {};
    EXPECT_EQ(sentence_of(report), "LOST: parse_line (leak.c:7) by way of strdup: 5.0 KiB in 578 "
                                   "blocks that nothing points to any more");
    leak().judgement =
        judged(Verdict::leaking, reason::StayForGood{.share = 0.4}, 1, 2 * 1024 * 1024);
    EXPECT_EQ(sentence_of(report),
              "LEAK: parse_line (leak.c:7) by way of strdup: 2.0 MiB a "
              "second, 40 % never freed; besides, lost: 5.0 KiB in 578 blocks");
}

// Of a process that nobody watched when it allocated them, a look at its heap tells.
TEST_F(FirstSentence, OfLostBlocksWithoutACallStack) {
    LeakFindings& found = report.leak_check.emplace();
    found.complete = true;
    found.totals[static_cast<std::size_t>(LossClass::definite)] = {2, 1024};
    const auto lost = [](LossClass loss, BlockCount count) {
        LeakRecord record;
        record.loss = loss;
        record.count = count;
        return record;
    };
    found.records = {lost(LossClass::definite, {2, 1024}), lost(LossClass::indirect, {1, 1024}),
                     lost(LossClass::reachable, {4, 4096})};
    leak().judgement = judged(Verdict::too_early, reason::SeenShortly{.seen_s = 4}, 2, 1500);
    const std::string sentence =
        "LOST: 2.0 KiB in 3 blocks that nothing points to any more, allocated where nobody watched";
    EXPECT_EQ(sentence_of(report), sentence);
    leak().judgement =
        judged(Verdict::leaking, reason::StayForGood{.share = 0.4}, 1, 2 * 1024 * 1024);
    EXPECT_EQ(sentence_of(report), "LEAK: parse_line (leak.c:7) by way of strdup: 2.0 MiB a "
                                   "second, 40 % never freed; besides, lost: 2.0 KiB in 3 blocks");
    report.callstacks.clear();
    EXPECT_EQ(sentence_of(report), sentence);
    report.session.events = {};
    EXPECT_EQ(sentence_of(report), sentence) << "not: nothing to judge";
    found.records[0].callstack = found.records[1].callstack = 7; // which somebody hides
    EXPECT_EQ(sentence_of(report), "Nothing to judge: no allocation was seen");
    found.complete = false;
    found.records[0].callstack = found.records[1].callstack = 0;
    EXPECT_EQ(sentence_of(report), "Nothing to judge: no allocation was seen");
}

TEST_F(FirstSentence, OfASessionThatHasSeenNoCall) {
    report.callstacks.clear();
    report.totals.live = {};
    report.session.events = {};
    EXPECT_EQ(sentence_of(report), "Nothing to judge: no allocation was seen");
    report.leak_check.emplace().complete = true;
    EXPECT_EQ(sentence_of(report),
              "Nothing to judge: no allocation was seen; no block of the heap is lost");
    report.leak_check.reset();
    report.session.events.unfollowed_alloc = 2;
    EXPECT_EQ(sentence_of(report), "Not judged: none of 2 allocations could be followed");
    report.mapped = Report::Mapped{};
    report.mapped->mapped = 1;
    EXPECT_EQ(sentence_of(report), "Not judged: 2 allocations could not be followed");
    report.session.events.unfollowed_alloc = 0;
    EXPECT_EQ(sentence_of(report),
              "No leak seen: nothing that was allocated meanwhile is still live");
}

// What nobody could follow may be live.
TEST_F(FirstSentence, IsNoAllClearWhereSomethingIsNotKnown) {
    report.totals.untracked = {1, 2048};
    leak().judgement = judged(Verdict::plateau, reason::NoneLately{.left = 20, .lately_s = 40});
    EXPECT_EQ(sentence_of(report),
              "No leak seen: 1 call stack holds 2.0 KiB in 20 blocks, and nothing keeps growing; "
              "but 2.0 KiB in 1 block was set aside, of which nobody knows whether it is freed");
    report.totals.untracked = {};
    report.session.events.unfollowed_alloc = 1;
    report.callstacks.push_back(leak());
    leak().judgement = judged(Verdict::too_early, reason::SeenShortly{.seen_s = 4}, 2, 1500);
    EXPECT_EQ(sentence_of(report),
              "No leak seen: 2 call stacks hold 3.9 KiB in 40 blocks; too early to tell of 1 of "
              "them (2.0 KiB); but 1 allocation could not be followed");
    report.callstacks.clear();
    EXPECT_EQ(sentence_of(report),
              "Not judged: all that is still live is hidden by ignore or only");
    report.totals.live = {};
    report.totals.untracked = {2000, 20'000'000};
    EXPECT_EQ(sentence_of(report),
              "Not judged: 1 allocation could not be followed, and 19.1 MiB in 2000 blocks were "
              "set aside, of which nobody knows whether they are freed");
    report.page_faults.emplace();
    report.session.events = {.unfollowed_alloc = 7};
    EXPECT_EQ(sentence_of(report), "Not judged: none of 7 allocations could be followed")
        << "there was one that was seen";
}

} // namespace
} // namespace memleax
