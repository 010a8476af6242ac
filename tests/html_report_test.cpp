// SPDX-License-Identifier: GPL-3.0-or-later
// The html report as text: what is in it, and that no name breaks out of its place.
// html_browser_test opens it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "html_support.hpp"
#include "memleax/report/leak_check_report.hpp"
#include "memleax/report/own_frame.hpp"
#include "report_support.hpp"

namespace memleax {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

class HtmlReport : public testing::Test {
  protected:
    void SetUp() override {
        if (find_report_format("html")->write == nullptr) {
            GTEST_SKIP() << "this build is without html";
        }
    }
    static std::string page(const Report& report) {
        return text_of(find_report_format("html")->write, report);
    }
    static std::string verdict(const Report& report) { return html_verdict(page(report)); }
    static json data(const Report& report) { return html_data(page(report)); }
};

TEST_F(HtmlReport, IsOnePageWithItsLicences) {
    const std::string text = page(server_report());
    EXPECT_TRUE(text.starts_with("<!DOCTYPE html>\n"));
    EXPECT_TRUE(text.ends_with("</html>\n"));
    EXPECT_THAT(text, Not(HasSubstr("@@")));
    EXPECT_THAT(text, HasSubstr("default-src 'none'"));
    EXPECT_THAT(text, HasSubstr("Apache License"));
    EXPECT_THAT(text, HasSubstr("Copyright 2010-2026 Mike Bostock"));
    EXPECT_THAT(text, HasSubstr("Copyright 2001 Robert Penner"));
    EXPECT_THAT(text, HasSubstr("d3-flame-graph 5.0.0, Apache-2.0"));
    EXPECT_THAT(text, Not(HasSubstr(" src=")));
    EXPECT_THAT(text, Not(HasSubstr("<link")));
}

// Without scripts, too.
TEST_F(HtmlReport, SaysThatTheWatchingGoesOn) {
    Report report = sample_report();
    EXPECT_THAT(verdict(report), Not(HasSubstr("goes on")));
    report.session.end_reason = "";
    EXPECT_THAT(
        verdict(report),
        HasSubstr("<p class=\"note\">Saved after 12.3&nbsp;s, while the watching goes on: all "
                  "figures are those of that moment.</p>\n"));
}

TEST_F(HtmlReport, Data) {
    const json all = data(sample_report());
    EXPECT_EQ(all.at("target"),
              json::parse(R"({"pid":4711,"exe":"/usr/bin/test","arch":"x86_64","threads":5})"));
    EXPECT_EQ(all.at("session").at("unknownFrees"), 4);
    EXPECT_EQ(all.at("live"), json::parse("[22,2125]"));
    EXPECT_EQ(all.at("old"), json::parse("[21,2025]"));
    EXPECT_EQ(all.at("memory"), json::array());
    // id, node, own frame, end, judgement, counts, life times, oldest, division, intervals
    EXPECT_EQ(all.at("stacks")[0],
              json::parse("[9,2,1,0,null,[1,100,0,0,1,100,0,0,0,0,0,0,0,0],null,0.5,0,[]]"));
    EXPECT_EQ(
        all.at("stacks")[1],
        json::parse("[7,0,0,1,null,[9,90,8,85,1,5,3,30,2,25,0,0,0,0],[0.5,2.25,11],12.5,0,[]]"));
    EXPECT_EQ(all.at("names")[1], "no unwind information");
}

TEST_F(HtmlReport, FramesAndPathsAreShared) {
    const json all = data(sample_report());
    EXPECT_EQ(all.at("frames").size(), 2U); // malloc and foo, in two call stacks each
    EXPECT_EQ(all.at("tree"), json::parse("[1,1,1,0]"));
    EXPECT_EQ(all.at("stacks")[0][1], all.at("stacks")[2][1]);
    const json& names = all.at("names");
    const json& foo = all.at("frames")[1];
    EXPECT_EQ(names.at(foo[0].get<std::size_t>()), "foo");
    EXPECT_EQ(names.at(foo[2].get<std::size_t>()), "test");
    EXPECT_EQ(names.at(foo[3].get<std::size_t>()), "foo.c");
    EXPECT_EQ(foo[4], 12);
    EXPECT_EQ(foo[5], "40084e");
    EXPECT_EQ(foo[6], 14);
    EXPECT_EQ(foo[7], 0);
    EXPECT_EQ(foo[8], nullptr);
}

// As addr2line(1) takes it.
TEST_F(HtmlReport, AFrameWithoutANameHasItsPlaceInTheModule) {
    Report report = sample_report();
    change_frame(report.callstacks[2].frames, 1, [](SourceFrame& frame) {
        frame.function = "";
        frame.module_offset = 0x84e;
    });
    const json all = data(report);
    EXPECT_EQ(all.at("frames").back()[8], "84e");
}

TEST_F(HtmlReport, TimesOfIntervalsAreShared) {
    const json all = data(server_report());
    EXPECT_EQ(all.at("divisions").size(), 1U);
    EXPECT_EQ(all.at("divisions")[0].size(), 18U);
    EXPECT_EQ(all.at("stacks")[7][9].size(), 36U);
    EXPECT_EQ(all.at("memory").size(), 3U * 121);
}

TEST_F(HtmlReport, WhoseMemoryIsShort) {
    EXPECT_FALSE(data(server_report()).contains("shortage")) << "nobody has looked";
    const json all = data(short_of_memory_report());
    const json& shortage = all.at("shortage");
    EXPECT_EQ(shortage.at("verdict"), "the group is nearly full: 95% of 60.0 MiB used");
    ASSERT_EQ(shortage.at("samples").size(), 5U * 121);
    EXPECT_EQ(shortage.at("samples")[0], nullptr) << "the group had no limit yet";
    EXPECT_EQ(shortage.at("samples")[5], 1 << 20);
    EXPECT_EQ(shortage.at("samples")[6], 60 << 20);
    EXPECT_EQ(shortage.at("samples")[8], nullptr) << "no pressure file";
    EXPECT_EQ(shortage.at("samples")[9], 1000);
}

TEST_F(HtmlReport, LeakCheck) {
    EXPECT_FALSE(data(sample_report()).contains("leaks")) << "nobody has looked";
    const json all = data(leak_check_report());
    const json& leaks = all.at("leaks");
    EXPECT_EQ(leaks.at("known"), 1);
    EXPECT_EQ(leaks.at("processes"), 1);
    EXPECT_EQ(leaks.at("pause"), 0.0125);
    EXPECT_EQ(leaks.at("totals"), json::parse("[15,1515,2,48,0,0,7,4296]"));
    ASSERT_EQ(leaks.at("records").size(), 4U);
    const json& names = all.at("names");
    const auto number_of_name = [&names](const std::string& name) {
        return std::find(names.begin(), names.end(), name) - names.begin();
    };
    // class, size, blocks, bytes, type, call stack, node, own frame, end, addresses, holders
    const json& stack = all.at("stacks")[2];
    ASSERT_EQ(stack[0], 3);
    EXPECT_EQ(
        leaks.at("records")[0],
        json::array({0, 101, 15, 1515, 0, 3, stack[1], 1, 0, {"7f01", "7f81"}, json::array()}));
    EXPECT_EQ(leaks.at("records")[1],
              json::array({1, 24, 2, 48, 0, 0, 0, 0, 0, {"8010", "8030"}, json::array()}));
    const auto holder = number_of_name("shop::g_sessions, server.cpp");
    EXPECT_EQ(leaks.at("records")[2],
              json::array({3,
                           0,
                           6,
                           4200,
                           number_of_name("shop::Session"),
                           0,
                           0,
                           0,
                           0,
                           json::array(),
                           {holder, 5, number_of_name("stack of thread 7"), 1}}));
    EXPECT_EQ(leaks.at("records")[3][10], json::array({holder, 1}));
}

TEST_F(HtmlReport, LeakCheckSaysWhatPossiblyLostBlocksHaveInCommon) {
    Report report = leak_check_report();
    EXPECT_EQ(data(report).at("leaks").at("common"), "");
    report.leak_check->common_offset = CommonOffset{16, 4812};
    EXPECT_THAT(std::string(data(report).at("leaks").at("common")),
                HasSubstr("possibly lost blocks are pointed to 16 bytes behind their begin: "));
}

TEST_F(HtmlReport, LeakCheckSaysOfWhichProcessABlockIs) {
    Report report = leak_check_report();
    report.follows_forks = true;
    report.processes.resize(2);
    report.processes[1].comm = "worker";
    report.processes[1].pid = 8;
    for (Report::Process& process : report.processes) {
        process.leak_check.emplace().complete = true;
    }
    report.leak_check->records[1].process = 1; // nothing else is known of where it comes from
    const json all = data(report);
    const std::size_t node = all.at("leaks").at("records")[1][6];
    ASSERT_GT(node, 0U);
    const json& frame = all.at("frames").at(all.at("tree").at(2 * node - 1).get<std::size_t>());
    EXPECT_EQ(all.at("names").at(frame[0].get<std::size_t>()), "worker-8");
}

/// Of a look without watching.
LeakCheckReport look() {
    LeakCheckReport report;
    static_cast<LeakFindings&>(report) = *leak_check_report().leak_check;
    report.version = "2";
    report.pid = 4711;
    report.exe = "/usr/bin/test";
    report.arch = "x86_64";
    report.threads = 5;
    for (LeakRecord& record : report.records) {
        record.callstack = 0;
        record.frames = {};
    }
    return report;
}

TEST_F(HtmlReport, OfALookWithoutWatching) {
    const auto text = [](const LeakCheckReport& report) {
        StringSink sink;
        find_report_format("html")->write_leak_check(report, sink);
        return sink.text;
    };
    const auto verdict = [&text](const LeakCheckReport& report) {
        return html_verdict(text(report));
    };
    LeakCheckReport report = look();
    EXPECT_EQ(
        verdict(report),
        "<h1 class=\"leaking\">1.5&nbsp;KiB in 17 blocks are lost: nothing points to them any "
        "more</h1>\n<p>The largest part is 15 blocks of 101 bytes.</p>\n");
    const json data = html_data(text(report));
    EXPECT_EQ(data.at("session").at("look"), true);
    EXPECT_EQ(data.at("target"),
              json::parse(R"({"pid":4711,"exe":"/usr/bin/test","arch":"x86_64","threads":5})"));
    EXPECT_EQ(data.at("leaks").at("records").size(), 4U);
    report.totals[0] = report.totals[1] = {};
    EXPECT_EQ(verdict(report), "<h1 class=\"good\">No block is lost</h1>\n<p>A chain of pointers "
                               "leads to 4.2 KiB in 7 blocks.</p>\n");
    report.totals[2] = {2, 96};
    EXPECT_THAT(verdict(report), HasSubstr("leads to 4.3 KiB in 9 blocks, to 2 of them by pointers "
                                           "into them only."));
    report.complete = false;
    report.why = "x < y";
    EXPECT_EQ(verdict(report), "<h1 class=\"growing\">The heap could not be read whole</h1>\n"
                               "<p>x &lt; y.</p>\n");
}

TEST_F(HtmlReport, WhyOnlyWatchedBlocksAreClassed) {
    Report report = leak_check_report();
    EXPECT_EQ(data(report).at("leaks").at("unlisted"), "");
    report.leak_check->unlisted = "malloc is that of </script>";
    EXPECT_EQ(data(report).at("leaks").at("unlisted"), "malloc is that of </script>");
}

TEST_F(HtmlReport, NothingIsSaidOfAnIncompleteLeakCheck) {
    Report report = leak_check_report();
    report.leak_check->complete = false;
    report.leak_check->why = "a thread was at work </script>";
    const json leaks = data(report).at("leaks");
    EXPECT_EQ(leaks.at("known"), 0);
    EXPECT_EQ(leaks.at("why"), "a thread was at work </script>");
    EXPECT_EQ(leaks.at("records"), json::array());
}

// Of several processes one has ended: what was found in the other is there.
TEST_F(HtmlReport, LeakCheckOfSomeProcesses) {
    const auto leaks = [](bool is_second_known) {
        return data(leak_checks_of_two(is_second_known)).at("leaks");
    };
    const json all = leaks(true);
    EXPECT_EQ(all.at("known"), 2);
    EXPECT_EQ(all.at("scope"), "all 2 processes");
    EXPECT_EQ(all.at("records").size(), 2U);
    const json some = leaks(false);
    EXPECT_EQ(some.at("known"), 1);
    EXPECT_EQ(some.at("processes"), 2);
    EXPECT_EQ(some.at("scope"), "1 of 2 processes");
    EXPECT_EQ(some.at("why"), "it has ended");
    EXPECT_EQ(some.at("totals"), json::parse("[1,100,0,0,0,0,0,0]"));
    ASSERT_EQ(some.at("records").size(), 1U);
    EXPECT_EQ(some.at("records")[0][1], 100);
    Report none = leak_checks_of_two(false);
    none.processes[0].leak_check->complete = false;
    EXPECT_EQ(data(none).at("leaks").at("known"), 0);
    EXPECT_EQ(data(none).at("leaks").at("records"), json::array());
}

TEST_F(HtmlReport, WhatWasNotFollowed) {
    Report report = sample_report();
    EXPECT_EQ(data(report).at("session").at("unfollowed"), 0);
    EXPECT_FALSE(data(report).contains("unfollowed"));
    report.session.events.unfollowed_alloc = 5;
    report.unfollowed = {{0, {2, 16}, Unseen::no_breakpoint, {}, StackEnd::limit},
                         {0, {3, 300}, Unseen::generated_code, small_stack()}};
    const json all = data(report);
    EXPECT_EQ(all.at("session").at("unfollowed"), 5);
    const json& names = all.at("names");
    const auto number_of_name = [&names](const std::string& name) {
        return std::find(names.begin(), names.end(), name) - names.begin();
    };
    // node, own frame, end, calls, bytes, why; most bytes first
    EXPECT_EQ(all.at("unfollowed"),
              json::array({{all.at("stacks")[0][1], 1, 0, 3, 300,
                            number_of_name(describe(Unseen::generated_code))},
                           {0, 0, number_of_name(describe(StackEnd::limit)), 2, 16,
                            number_of_name(describe(Unseen::no_breakpoint))}}));
}

TEST_F(HtmlReport, NoNameBreaksOut) {
    const std::string evil = "</script><!--<img src=x onerror=alert(1)>\"&\xff";
    Report report = sample_report();
    report.target.exe = evil;
    report.leak_check = leak_check_report().leak_check;
    for (Backtrace* frames :
         {&report.callstacks[2].frames, &report.leak_check->records[0].frames}) {
        change_frame(*frames, 1, [&evil](SourceFrame& frame) {
            frame.function = frame.module = frame.file = evil;
        });
    }
    report.leak_check->records[2].type = report.leak_check->records[2].holders[0].name = evil;
    EXPECT_THAT(page(report), Not(HasSubstr("<img")));
    EXPECT_THAT(page(report), Not(HasSubstr("\xff")));
    const std::string read = evil.substr(0, evil.size() - 1) + "\xef\xbf\xbd";
    EXPECT_EQ(data(report).at("target").at("exe"), read);
    EXPECT_THAT(data(report).at("names"), testing::Contains(json(read)));
    EXPECT_THAT(verdict(report), HasSubstr("&lt;/script&gt;"));
}

TEST_F(HtmlReport, GrowsWithTheReportOnly) {
    class Counter final : public ReportSink {
      public:
        void write(std::string_view piece) override {
            size += piece.size();
            largest = std::max(largest, piece.size());
        }
        std::size_t size = 0;
        std::size_t largest = 0;
    };
    const auto measure = [](std::uint32_t stacks) {
        Counter counter;
        write_html(large_report(stacks, 50), counter);
        return counter;
    };
    const Counter small = measure(1000);
    const Counter large = measure(4000);
    EXPECT_LT(large.size, 4 * small.size);
    EXPECT_EQ(large.largest, small.largest); // the page itself; data comes in smaller pieces
}

TEST(OwnFrame, IsTheInnermostThatIsNeitherAllocatorNorRuntime) {
    EXPECT_EQ(own_frame(small_stack()), 1U);
    EXPECT_EQ(own_frame(server_report().callstacks.back().frames), 2U);
    EXPECT_EQ(own_frame({}), 0U);
    // Templates of the standard library are compiled into the program.
    EXPECT_EQ(
        own_frame({frame(1, "prog", "operator new(unsigned long)"),
                   frame(2, "prog", "void std::vector<int>::push_back(int const&)"),
                   frame(3, "prog", "std::string my::name() const"), frame(4, "prog", "main")}),
        2U);
    // Nothing but the runtime: who called the allocator.
    EXPECT_EQ(own_frame({frame(1, "libc.so.6", "malloc"), frame(2, "libc.so.6", "getaddrinfo"),
                         frame(3, "libc.so.6", "start_thread")}),
              1U);
    // Names are missing.
    EXPECT_EQ(own_frame({frame(1, "libc.so.6", "malloc"), frame(2), frame(3, "prog")}), 2U);
    // The program's function without a name is the place, not the next one that has a name.
    EXPECT_EQ(own_frame({frame(1, "libc.so.6", "malloc"), frame(2, "prog"),
                         frame(3, "libevent.so", "event_base_loop")}),
              1U);
}

TEST(WithoutHtml, IsSaidInTheFormat) {
    EXPECT_EQ(find_report_format("html")->why_without, "npm was not available when it was built");
}

} // namespace
} // namespace memleax
