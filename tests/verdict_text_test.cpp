// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/report/verdict_text.hpp"

#include <string>

#include <gtest/gtest.h>

namespace memleax {
namespace {

std::string text(const Reason& reason, double blocks_per_s = 0) {
    return why({.verdict = {}, .score = 0, .reason = reason, .blocks_per_s = blocks_per_s});
}

TEST(VerdictText, Verdicts) {
    EXPECT_STREQ(describe(Verdict::too_early), "too early");
    EXPECT_STREQ(describe(Verdict::settled), "settled");
    EXPECT_STREQ(describe(Verdict::plateau), "plateau");
    EXPECT_STREQ(describe(Verdict::growing), "growing");
    EXPECT_STREQ(describe(Verdict::leaking), "leaking");
}

TEST(VerdictText, Reasons) {
    EXPECT_EQ(text({}), "");
    EXPECT_EQ(text(reason::NothingAllocated{}), "nothing was allocated in the intervals");
    EXPECT_EQ(text(reason::SeenShortly{.seen_s = 4}), "seen for 4.0 s only");
    EXPECT_EQ(text(reason::FewBlocks{.left = 1}), "only 1 block so far");
    EXPECT_EQ(text(reason::FewBlocks{.left = 2}), "only 2 blocks so far");
    EXPECT_EQ(text(reason::NothingOlder{.share = 0.5}),
              "50% of blocks stay, but nothing is much older yet");
    EXPECT_EQ(text(reason::AllFreed{.allocated = 7, .longest_life_s = 16}),
              "no block of 7 is left, none lived longer than 16 s");
    EXPECT_EQ(text(reason::OldFreed{.allocated = 9, .older_than_s = 120}),
              "no block of 9 older than 120 s is left");
    EXPECT_EQ(
        text(reason::FreedWithAge{.older_share = 0, .older_than_s = 10, .newer_share = 0.345}),
        "blocks go with age: 0% are left after 10 s, 34% of the newer");
    EXPECT_EQ(text(reason::FewLately{.left = 50, .left_lately = 0, .lately_s = 152}),
              "50 blocks left, 0 of the last 152 s");
    EXPECT_EQ(text(reason::NoneLately{.left = 1, .lately_s = 40}),
              "1 block left, none of the last 40 s");
    EXPECT_EQ(text(reason::Stay{.share = 0.5, .during_s = 92, .may_fill_up = false}, 0.15),
              "50% of blocks stay for 92 s; 0.15 blocks/s");
    EXPECT_EQ(text(reason::Stay{.share = 1, .during_s = 20, .may_fill_up = true}, 12.3),
              "100% of blocks stay for 20 s; 12 blocks/s; it may be a cache that fills");
    EXPECT_EQ(text(
                  reason::StayForGood{
                      .share = 0.001, .intervals = 3, .intervals_with_live = 3, .since_s = 100},
                  2),
              "0.1% of blocks stay in every interval back to 100 s; 2 blocks/s");
    EXPECT_EQ(text(
                  reason::StayForGood{
                      .share = 0.5, .intervals = 5, .intervals_with_live = 3, .since_s = 100},
                  2),
              "50% of blocks stay in 3 of 5 intervals back to 100 s; 2 blocks/s");
    EXPECT_EQ(text(reason::EverLarger{.live = {1, 4096}, .during_s = 100}),
              "1 block, replaced by ever larger ones for 100 s; it may be a buffer that fills");
}

TEST(VerdictText, TheHolderComesLast) {
    Judgement judgement{.verdict = Verdict::growing, .score = 0, .reason = {}};
    judgement.held_by = HeldBy{2493, 2500, "g_sessions, server.cpp"};
    EXPECT_EQ(why(judgement), "2493 of 2500 held by g_sessions, server.cpp");
    judgement.reason = reason::Stay{.share = 1, .during_s = 20, .may_fill_up = false};
    judgement.blocks_per_s = 12;
    EXPECT_EQ(why(judgement), "100% of blocks stay for 20 s; 12 blocks/s; "
                              "2493 of 2500 held by g_sessions, server.cpp");
}

TEST(VerdictText, Durations) {
    const auto duration = [](double s) { return text(reason::SeenShortly{.seen_s = s}); };
    EXPECT_EQ(duration(9.9), "seen for 9.9 s only");
    EXPECT_EQ(duration(10), "seen for 10 s only");
    EXPECT_EQ(duration(299), "seen for 299 s only");
    EXPECT_EQ(duration(300), "seen for 5 min only");
    EXPECT_EQ(duration(10799), "seen for 180 min only");
    EXPECT_EQ(duration(10800), "seen for 3.0 h only");
}

} // namespace
} // namespace memleax
