// SPDX-License-Identifier: GPL-3.0-or-later
// What heads the html report. It is no all-clear where the text's first sentence is none.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "html_support.hpp"
#include "report_support.hpp"

namespace memleax {
namespace {

using testing::HasSubstr;
using testing::Not;

class HtmlHeadline : public testing::Test {
  protected:
    void SetUp() override {
        if (find_report_format("html")->write == nullptr) {
            GTEST_SKIP() << "this build is without html";
        }
    }
    /// Of a report whose watching has ended.
    static std::string verdict(Report report) {
        report.session.end_reason = "time";
        return html_verdict(text_of(find_report_format("html")->write, report));
    }
    static std::string first_sentence(const Report& report) {
        const std::string text = text_of(find_report_format("text")->write, report);
        return text.substr(1, text.find('\n', 1) - 1);
    }
    /// server_report() with nothing that grows, is too young to tell, or could not be followed.
    static Report quiet_report() {
        Report report = server_report();
        report.session.events.unfollowed_alloc = 0;
        std::erase_if(report.callstacks, [](const auto& stack) {
            return stack.judgement->verdict != Verdict::settled &&
                   stack.judgement->verdict != Verdict::plateau;
        });
        return report;
    }
};

TEST_F(HtmlHeadline, SaysItInPlainWords) {
    EXPECT_EQ(verdict(server_report()),
              "<h1 class=\"leaking\">2 call stacks leak: 1.2&nbsp;MiB in 1206 blocks</h1>\n"
              "<p>The worst grows by 2.0 KiB/s: <code>shop::SessionStore::open</code></p>\n");
}

TEST_F(HtmlHeadline, SaysWhatGrowsWhereNothingLeaks) {
    Report report = server_report();
    std::erase_if(report.callstacks,
                  [](const auto& stack) { return stack.judgement->verdict == Verdict::leaking; });
    EXPECT_EQ(
        verdict(report),
        "<h1 class=\"growing\">No certain leak, but 1 call stack grows: 192.8&nbsp;KiB in 617 "
        "blocks</h1>\n"
        "<p>It grows by 320 B/s: <code>shop::AuditLog::append&lt;shop::Login&gt;</code></p>\n");
}

TEST_F(HtmlHeadline, SaysThatABlockGrows) {
    Report report = quiet_report();
    report.callstacks.resize(1);
    CallStackReport& stack = report.callstacks.front();
    stack.live = {1, 308 * 1024 * 1024};
    stack.judgement = judged(Verdict::growing, reason::EverLarger{stack.live, 100}, 0, 3 << 20);
    EXPECT_THAT(verdict(report),
                HasSubstr("<h1 class=\"growing\">No certain leak, but 1 call stack grows: "
                          "308.0&nbsp;MiB in 1 block</h1>\n<p>It grows by 3.0 MiB/s: <code>"));
}

TEST_F(HtmlHeadline, SaysThatAllIsWell) {
    EXPECT_EQ(
        verdict(quiet_report()),
        "<h1 class=\"good\">No leak found</h1>\n"
        "<p>4 call stacks hold 2.3 MiB in 1596 blocks, and none of them keeps growing.</p>\n");
    Report report = quiet_report();
    report.callstacks.clear();
    report.totals = {};
    EXPECT_EQ(verdict(report), "<h1 class=\"good\">No leak found</h1>\n"
                               "<p>Nothing that was allocated meanwhile is still live.</p>\n");
}

TEST_F(HtmlHeadline, SaysThatItIsTooEarly) {
    Report report = server_report();
    report.callstacks.resize(1);
    EXPECT_THAT(verdict(report), HasSubstr("<h1 class=\"early\">Too early to tell</h1>"));
}

// A few young call stacks say nothing against the old ones, and nothing for themselves.
TEST_F(HtmlHeadline, SaysOfHowManyItIsTooEarly) {
    Report report = quiet_report();
    report.callstacks.insert(report.callstacks.begin(), server_report().callstacks.front());
    EXPECT_THAT(first_sentence(report), HasSubstr("too early to tell of 1 of them (768 B)"));
    EXPECT_EQ(
        verdict(report),
        "<h1 class=\"early\">No leak found, but too early to tell of 1 call stack</h1>\n"
        "<p>5 call stacks hold 2.3 MiB in 1599 blocks, of which 768 B are not judged yet.</p>\n");
}

TEST_F(HtmlHeadline, HasNothingToJudge) {
    EXPECT_THAT(first_sentence(Report{}), HasSubstr("Nothing to judge: no allocation was seen"));
    EXPECT_EQ(verdict(Report{}),
              "<h1 class=\"growing\">Nothing to judge: no allocation was seen</h1>\n");
    Report report;
    report.leak_check.emplace().complete = true;
    EXPECT_EQ(verdict(report),
              "<h1 class=\"growing\">Nothing to judge: no allocation was seen</h1>\n"
              "<p>No block of the heap is lost.</p>\n");
}

TEST_F(HtmlHeadline, SaysThatNoAllocationCouldBeFollowed) {
    Report report;
    report.session.events.unfollowed_alloc = 5000;
    EXPECT_THAT(first_sentence(report),
                HasSubstr("Not judged: none of 5000 allocations could be followed"));
    EXPECT_EQ(
        verdict(report),
        "<h1 class=\"growing\">Not judged: none of 5000 allocations could be followed</h1>\n");
}

// Where there is memory of which nobody knows, all is not well.
TEST_F(HtmlHeadline, IsNotGreenWhereSomethingIsNotKnown) {
    Report report = quiet_report();
    report.session.events.unfollowed_alloc = 5000;
    EXPECT_EQ(
        verdict(report),
        "<h1 class=\"growing\">No leak found; but 5000 allocations could not be followed</h1>\n"
        "<p>4 call stacks hold 2.3 MiB in 1596 blocks, and none of them keeps growing.</p>\n");
    report.callstacks.insert(report.callstacks.begin(), server_report().callstacks.front());
    EXPECT_THAT(verdict(report),
                HasSubstr("<h1 class=\"growing\">No leak found, but too early to tell of 1 call "
                          "stack; but 5000 allocations could not be followed</h1>"));
    report.callstacks.clear();
    report.totals = {};
    report.session.events.unfollowed_alloc = 0;
    report.totals.untracked = {3, 300};
    EXPECT_EQ(verdict(report),
              "<h1 class=\"growing\">Not judged: 300&nbsp;B in 3 blocks were set aside, of which "
              "nobody knows whether they are freed</h1>\n");
}

// As the text report, which has a line of it.
TEST_F(HtmlHeadline, IsNotGreenWhereTheProcessGrowsByWhatIsNotWatched) {
    constexpr std::uint64_t kMiB = 1024 * 1024;
    Report report = quiet_report();
    report.memory = {{0, 0, 10 * kMiB}, {60, 0, 112 * kMiB}};
    const std::string gap = "RSS +102.0 MiB, watched blocks +0 B: try --track heap,mmap";
    const std::string not_judged =
        "<h1 class=\"growing\">Not judged: the process grows by what is not watched</h1>\n"
        "<p>" +
        gap + ".</p>\n";
    EXPECT_EQ(verdict(report), not_judged);
    Report early = report;
    early.callstacks.resize(1);
    early.callstacks[0] = server_report().callstacks.front();
    EXPECT_THAT(verdict(early), HasSubstr("<h1 class=\"growing\">Too early to tell</h1>"));
    EXPECT_THAT(verdict(early), HasSubstr("<p>Besides: RSS +102.0&nbsp;MiB, watched blocks "));
    report.callstacks.clear();
    report.totals = {};
    EXPECT_EQ(verdict(report), not_judged);
    report.session.events = {};
    EXPECT_EQ(verdict(report),
              "<h1 class=\"growing\">Nothing to judge: no allocation was seen</h1>\n<p>" + gap +
                  ".</p>\n");
    Report leaking = server_report();
    leaking.memory = report.memory;
    EXPECT_THAT(verdict(leaking), HasSubstr("<h1 class=\"leaking\">2 call stacks leak: "));
    EXPECT_THAT(verdict(leaking), HasSubstr("<p>Besides: RSS +102.0&nbsp;MiB, watched blocks "));
    report.memory = {{0, 0, 10 * kMiB}, {60, 80 * kMiB, 112 * kMiB}};
    EXPECT_THAT(verdict(report), Not(HasSubstr("RSS")));
}

TEST_F(HtmlHeadline, SaysThatOnlyPageFaultsWereSeen) {
    Report report;
    report.page_faults.emplace().totals.minor = 3;
    EXPECT_EQ(verdict(report), "<h1 class=\"growing\">3 page faults, and no allocation</h1>\n");
}

// The prompt's ignore and only leave call stacks out of the report, not out of its totals.
TEST_F(HtmlHeadline, SaysThatALeakIsHidden) {
    Report report = quiet_report();
    report.totals.leaking_stacks = 1;
    EXPECT_THAT(first_sentence(report), HasSubstr("; hidden: 1 call stack called leaking"));
    EXPECT_EQ(
        verdict(report),
        "<h1 class=\"growing\">No leak found; hidden: 1 call stack called leaking</h1>\n"
        "<p>4 call stacks hold 2.3 MiB in 1596 blocks, and none of them keeps growing.</p>\n");
    report.callstacks.clear();
    EXPECT_THAT(first_sentence(report), HasSubstr("; hidden: 1 call stack called leaking"));
    const std::string not_judged = "Not judged: all that is still live is hidden by ignore or only";
    EXPECT_EQ(verdict(report), "<h1 class=\"growing\">" + not_judged +
                                   "; hidden: 1 call stack called leaking</h1>\n");
    report.totals.leaking_stacks = 0;
    EXPECT_THAT(first_sentence(report), HasSubstr(not_judged));
    EXPECT_EQ(verdict(report), "<h1 class=\"growing\">" + not_judged + "</h1>\n");
    report.totals.leaking_stacks = 1;
    report.callstacks = {server_report().callstacks.front()};
    EXPECT_THAT(verdict(report), HasSubstr("<h1 class=\"growing\">Too early to tell; hidden: 1 "));
    report.callstacks = server_report().callstacks; // LEAK is said anyway
    EXPECT_THAT(verdict(report), Not(HasSubstr("hidden")));
}

TEST_F(HtmlHeadline, GoesByAgeWhereNothingIsJudged) {
    EXPECT_EQ(verdict(sample_report()), "<h1 class=\"growing\">2 call stacks may leak: "
                                        "2.0&nbsp;KiB in 21 blocks older than 10&nbsp;s"
                                        "</h1>\n<p>Most is held by: <code>foo</code></p>\n");
    Report young = sample_report();
    young.callstacks.resize(1);
    EXPECT_THAT(first_sentence(young), HasSubstr("Not judged, for want of intervals: "));
    EXPECT_EQ(verdict(young), "<h1 class=\"growing\">Not judged, for want of intervals</h1>\n"
                              "<p>Nothing is older than 10 s.</p>\n");
}

TEST_F(HtmlHeadline, LostBlocksComeFirst) {
    Report report = leak_check_report();
    EXPECT_EQ(
        verdict(report),
        "<h1 class=\"leaking\">1.5&nbsp;KiB in 17 blocks are lost: nothing points to them any "
        "more</h1>\n<p>The largest part of it was allocated by: <code>foo</code></p>\n"
        "<p>Besides: 2 call stacks may leak: 2.0&nbsp;KiB in 21 blocks older than 10&nbsp;s."
        "</p>\n");
    LeakFindings& found = *report.leak_check;
    found.records.erase(found.records.begin()); // what was allocated before is left
    found.records[0].loss = LossClass::definite;
    found.records[0].type = "shop::Basket<int>";
    found.totals = {BlockCount{2, 48}};
    report.callstacks.clear();
    report.totals.live = {};
    EXPECT_EQ(verdict(report),
              "<h1 class=\"leaking\">48&nbsp;B in 2 blocks are lost: nothing points to them any "
              "more</h1>\n<p>That is 2 blocks of 24 bytes (shop::Basket&lt;int&gt;).</p>\n");
    found.complete = false;
    EXPECT_THAT(verdict(report), HasSubstr("No leak found")) << "nothing may be said of them";
}

// Of several processes one has ended.
TEST_F(HtmlHeadline, LostBlocksOfSomeProcesses) {
    EXPECT_EQ(verdict(leak_checks_of_two(true)),
              "<h1 class=\"leaking\">201&nbsp;B in 2 blocks are lost: nothing points to them any "
              "more</h1>\n<p>The largest part is 1 block of 101 bytes.</p>\n");
    Report report = leak_checks_of_two(false);
    const std::string lost =
        "<h1 class=\"leaking\">100&nbsp;B in 1 block is lost: nothing points to it any more</h1>\n"
        "<p>That is 1 block of 100 bytes.</p>\n<p>Besides: ";
    EXPECT_EQ(verdict(report), lost + "only 1 of 2 processes could be looked at.</p>\n");
    report.session.events.unfollowed_alloc = 2;
    EXPECT_EQ(verdict(report), lost + "Not judged: none of 2 allocations could be followed; only 1 "
                                      "of 2 processes could be looked at.</p>\n");
    // Their call stack is known: that is no news.
    CallStackReport stack = sample_report().callstacks[2];
    stack.judgement = Judgement{};
    stack.judgement->verdict = Verdict::lost;
    report.callstacks = {stack};
    EXPECT_EQ(verdict(report), lost + "only 1 of 2 processes could be looked at.</p>\n");
}

} // namespace
} // namespace memleax
