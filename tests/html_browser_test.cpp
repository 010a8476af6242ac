// SPDX-License-Identifier: GPL-3.0-or-later
// The html report in headless Chromium: what a reader sees and clicks. browse_page.py drives it.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "build_paths.hpp"
#include "html_support.hpp"
#include "memleax/report/leak_check_report.hpp"
#include "report_support.hpp"

namespace memleax {
namespace {

using nlohmann::json;
using testing::HasSubstr;

json click(const char* element) {
    return {{"click", element}};
}
json eval(const char* script) {
    return {{"eval", script}};
}

class HtmlBrowser : public testing::Test {
  protected:
    void SetUp() override {
        if (find_report_format("html")->write == nullptr) {
            GTEST_SKIP() << "this build is without html";
        }
        if (std::system("command -v chromium chromium-browser >/dev/null") != 0) {
            GTEST_SKIP() << "Chromium is not installed (package chromium)";
        }
        std::string name = testing::TempDir() + "memleax-html-XXXXXX";
        ASSERT_NE(mkdtemp(name.data()), nullptr);
        folder_ = name;
    }
    void TearDown() override {
        if (!folder_.empty() && !HasFailure()) {
            std::filesystem::remove_all(folder_);
        }
    }

    /// Results of the steps. Fails on anything in the console, and on any request but the page's.
    json browse(const Report& report, const json& steps) {
        return browse(text_of(find_report_format("html")->write, report), steps);
    }
    json browse(const std::string& text, const json& steps) {
        class File final : public ReportSink {
          public:
            explicit File(const std::filesystem::path& path) : stream_(path) {}
            void write(std::string_view piece) override { stream_ << piece; }

          private:
            std::ofstream stream_;
        };
        const auto page = folder_ / "report.html";
        File(page).write(text);
        std::ofstream(folder_ / "steps.json") << steps;
        const std::string command =
            fmt::format("python3 {0}/tests/browse_page.py {1}/report.html <{1}/steps.json "
                        ">{1}/result.json",
                        MEMLEAX_SOURCE_DIR, folder_.string());
        EXPECT_EQ(std::system(command.c_str()), 0) << command;
        std::ifstream stream(folder_ / "result.json");
        const json result = json::parse(stream, nullptr, false);
        if (!result.is_object()) {
            ADD_FAILURE() << "no result in " << folder_;
            return json::array();
        }
        EXPECT_EQ(result.at("console"), json::array());
        EXPECT_EQ(result.at("requests"), json::array({"file://" + page.string()}));
        return result.at("results");
    }

  private:
    std::filesystem::path folder_;
};

constexpr const char* kReady = "document.documentElement.dataset.ready";
constexpr const char* kRows =
    "[...document.querySelectorAll('#rows .stack')].map((row) => Number(row.dataset.id))";
constexpr const char* kVisibleSections =
    "[...document.querySelectorAll('main > section')].filter((each) => each.clientHeight > 0)"
    ".map((each) => each.id)";

TEST_F(HtmlBrowser, Renders) {
    const json results = browse(
        server_report(),
        {eval(kReady), eval("document.title"), eval("document.querySelector('h1').textContent"),
         eval(kVisibleSections), eval(kRows),
         eval("[...document.querySelector('#rows .stack').children].map((each) => "
              "each.innerText.replace(/\\s+/g, ' ').trim())"),
         eval("document.querySelectorAll('#rows svg.spark').length"),
         eval("document.querySelectorAll('#panels svg polyline').length"),
         eval("[...document.querySelectorAll('g.frame')].some((g) => "
              "g.getBoundingClientRect().width > 900)"),
         eval("document.documentElement.scrollWidth <= innerWidth")});
    EXPECT_EQ(results, json::parse(R"(["yes", "shopd 16129: memleax report",
        "2 call stacks leak: 1.2\u00a0MiB in 1206 blocks", ["verdict", "stacks", "flame", "memory"],
        [1, 3, 5, 7, 2, 6, 4, 9],
        ["leaking", "shop::SessionStore::open #1 · src/shop/session_store.cpp:40", "1.2 MiB", "603",
         "1.1 MiB", "2.0 KiB/s", "1.2 MiB", "100 %", ""],
        8, 2, true, true])"));
}

TEST_F(HtmlBrowser, WhoseMemoryIsShort) {
    EXPECT_EQ(browse(short_of_memory_report(),
                     {eval(kReady), eval("document.querySelector('#shortage').textContent"),
                      eval("[...document.querySelectorAll('#panels figcaption b')].map((b) => "
                           "b.textContent)"),
                      eval("document.querySelectorAll('#panels svg polyline').length"),
                      eval("[...document.querySelectorAll('#panels .waited .now')].map((b) => "
                           "b.textContent)")}),
              json::parse(R"(["yes", "The group is nearly full: 95% of 60.0 MiB used.",
                              ["Live blocks", "Resident set", "Control group", "Available",
                               "Waiting, machine"], 5, ["0.02 % at most"]])"));
}

TEST_F(HtmlBrowser, FitsAPhone) {
    const json results = browse(
        server_report(),
        {{{"size", {390, 844}}},
         click("document.querySelector('#rows .open')"),
         eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => "
              "done(document.documentElement.scrollWidth))))")});
    EXPECT_EQ(results, json::array({390}));
}

TEST_F(HtmlBrowser, EmptyReport) {
    EXPECT_EQ(browse(Report{}, {eval(kReady), eval(kVisibleSections)}),
              json::parse(R"(["yes", ["verdict"]])"));
}

TEST_F(HtmlBrowser, WithoutVerdictsAndIntervals) {
    EXPECT_EQ(browse(sample_report(),
                     {eval(kReady), eval(kVisibleSections), eval(kRows),
                      eval("[...document.querySelectorAll('.badge')].map((b) => b.textContent)")}),
              json::parse(R"(["yes", ["verdict", "stacks", "flame"], [3, 7, 9],
                              ["expired", "expired", "young"]])"));
}

constexpr const char* kFacts = "[...document.querySelectorAll('#facts > div')].slice(0, 3)"
                               ".map((each) => each.innerText.replace(/\\s+/g, ' '))";
constexpr const char* kSums = "[...document.querySelector('#sums').children].map((each) => "
                              "each.innerText.trim())";

TEST_F(HtmlBrowser, LiveAndExpiredAddUp) {
    Report report = sample_report();
    CallStackReport& leak = report.callstacks[2];
    leak.untracked = {5, 505}; // set aside at a pause, of which the account knows
    leak.untracked_expired = {5, 505};
    leak.expired = {15 + 5 - 2, 18 * 101};
    leak.live = {15, 1515};
    report.totals.live = {17, 1620};
    report.totals.expired = {14, 1318};
    const json results =
        browse(report, {eval(kFacts), eval(kSums), click("document.querySelector('#rows .open')"),
                        eval("[...document.querySelectorAll('.account > div')].slice(0, 7)"
                             ".map((each) => each.innerText.replace(/\\s+/g, ' '))"),
                        eval("document.querySelector('#hidden').textContent")});
    EXPECT_EQ(results, json::parse(R"([
        ["Live 1.6 KiB 17 blocks", "of it expired (older than 10 s) 1.3 KiB 14 blocks",
         "of it younger 302 B 3 blocks"],
        ["", "Sum of 3 call stacks", "1.6 KiB", "17", "1.3 KiB", "", "2.2 KiB", "", ""],
        ["Allocated 2.0 KiB 20 blocks", "Freed 0 B 0 blocks",
         "Set aside at a pause 505 B 5 blocks", "Live 1.5 KiB 15 blocks",
         "of it expired 1.3 KiB 13 blocks", "of it younger 202 B 2 blocks",
         "Expired ever 1.8 KiB 18 blocks"], ""])"));
}

TEST_F(HtmlBrowser, SaysWhatAFilterHides) {
    Report report = sample_report();
    report.callstacks.pop_back();
    EXPECT_EQ(browse(report, json::array({eval("document.querySelector('#hidden').textContent")})),
              json::parse(R"(["Not listed, hidden by ignore or only: 2.0 KiB in 20 blocks."])"));
}

TEST_F(HtmlBrowser, SaysHowItEnded) {
    constexpr const char* kSession = "document.querySelector('#session').innerText";
    Report report = sample_report();
    const auto end = [&](const char* reason) {
        report.session.end_reason = reason;
        return browse(report, json::array({eval(kSession)}))[0].get<std::string>();
    };
    EXPECT_THAT(end(""), HasSubstr("watched for 12.3 s, and still being watched"));
    EXPECT_THAT(end("error"), HasSubstr("watched for 12.3 s, until the watching failed"));
}

TEST_F(HtmlBrowser, HeadersSort) {
    constexpr const char* kSorted =
        "[...document.querySelectorAll('th[aria-sort]')].filter((th) => th.ariaSort !== 'none')"
        ".map((th) => [th.dataset.key, th.ariaSort])";
    constexpr const char* kLive = "document.querySelector('th[data-key=bytes] button')";
    const json results = browse(
        server_report(),
        {eval(kSorted), click(kLive), eval(kRows), eval(kSorted), click(kLive), eval(kRows),
         click("document.querySelector('th[data-key=where] button')"), eval(kRows), eval(kSorted)});
    EXPECT_EQ(results, json::parse(R"([[["verdict", "descending"]],
        [2, 1, 4, 5, 3, 7, 6, 9], [["bytes", "descending"]], [9, 6, 7, 3, 5, 4, 1, 2],
        [7, 5, 9, 2, 6, 4, 1, 3], [["where", "ascending"]]])"));
}

TEST_F(HtmlBrowser, FiltersAndShowsMore) {
    constexpr const char* kShown = "[document.querySelectorAll('#rows .stack').length,"
                                   " document.querySelector('#shown').textContent]";
    const json results = browse(
        large_report(500, 8),
        {eval(kShown), click("document.querySelector('#more')"), eval(kShown),
         click("document.querySelectorAll('#verdicts button')[1]"), eval(kShown),
         eval("(() => { const box = document.querySelector('#filter'); box.value = 'STEP_2(';"
              " box.dispatchEvent(new Event('input')); })()"),
         eval("[...document.querySelectorAll('#rows .stack')].length > 0"),
         eval("(() => { const box = document.querySelector('#filter'); box.value = 'no such';"
              " box.dispatchEvent(new Event('input')); })()"),
         eval(kShown)});
    EXPECT_EQ(results, json::parse(R"([[200, "200 of 500 call stacks"],
        [400, "400 of 500 call stacks"], [100, "100 of 100 call stacks that match"], null, true, null,
        [0, "No call stack matches."]])"));
}

TEST_F(HtmlBrowser, RowsOpen) {
    constexpr const char* kOpen = "document.querySelectorAll('#rows .open')[1]";
    constexpr const char* kState =
        "(() => { const button = document.querySelectorAll('#rows .open')[1];"
        " const more = document.getElementById(button.getAttribute('aria-controls'));"
        " return [button.ariaExpanded, more.hidden, more.querySelectorAll('li').length,"
        " more.querySelectorAll('.intervals tbody tr').length]; })()";
    const json results =
        browse(server_report(),
               {eval(kState), click(kOpen), eval(kState), {{"key", "Enter"}}, eval(kState)});
    EXPECT_EQ(results, json::parse(R"([["false", true, 0, 0], ["true", false, 8, 9],
                                       ["false", true, 8, 9]])"));
}

constexpr const char* kFrames =
    "[...document.querySelectorAll('g.frame')].filter((g) => Number(g.getAttribute('width')) > 1)"
    ".map((g) => g.getAttribute('name'))";

TEST_F(HtmlBrowser, FlameGraphZooms) {
    // Waits for the frame, because what d3 draws may come later by a frame of the screen.
    constexpr const char* kWidth =
        "new Promise((done) => { const look = () => {"
        " const g = document.querySelector('g.frame[name=\"shop::Server::login\"]');"
        " const root = document.querySelector('g.frame[name=\"all live memory\"]');"
        " if (g.getBoundingClientRect().width === root.getBoundingClientRect().width) done('full');"
        " else requestAnimationFrame(look); }; look(); })";
    const json results = browse(
        server_report(),
        {eval("document.querySelector('g.frame[name=\"shop::Server::login\"]')"
              ".getBoundingClientRect().width < 500"),
         click("document.querySelector('g.frame[name=\"shop::Server::login\"]')"),
         eval(kWidth),
         eval(kFrames),
         eval("document.querySelector('#unzoom').disabled"),
         click("document.querySelector('#unzoom')"),
         eval("document.querySelector('#unzoom').disabled"),
         eval("document.querySelector('g.frame[name=\"shop::Server::browse\"]').getAttribute("
              "'width') > 500"),
         // By keyboard, too.
         eval("document.querySelector('g.frame[name=\"shop::Server::login\"]').focus()"),
         {{"key", "Enter"}},
         eval(kWidth)});
    EXPECT_EQ(results[0], true);
    EXPECT_EQ(results[1], "full");
    EXPECT_THAT(results[2].dump(), HasSubstr("shop::SessionStore::remember"));
    EXPECT_THAT(results[2].dump(), testing::Not(HasSubstr("shop::Server::browse")));
    EXPECT_EQ(results[3], false);
    EXPECT_EQ(results[4], true);
    EXPECT_EQ(results[5], true);
    EXPECT_EQ(results[7], "full");
}

TEST_F(HtmlBrowser, FlameGraphSwitchesToBlocks) {
    constexpr const char* kLabel =
        "document.querySelector('g.frame[name=\"shop::Server::login\"] title').textContent";
    EXPECT_EQ(browse(server_report(),
                     {eval(kLabel), click("document.querySelector('[data-measure=blocks]')"),
                      eval(kLabel)}),
              json::parse(R"(["shop::Server::login: 1.2 MiB, 33 % of all, 100 % of it suspect",
                "shop::Server::login: 1,206 blocks, 35 % of all, 100 % of it suspect"])"));
}

TEST_F(HtmlBrowser, ZoomShowsWhatWasTooNarrow) {
    Report report = sample_report();
    const CallStackReport model = report.callstacks[2];
    report.callstacks.clear();
    const auto add = [&](std::uint64_t id, const std::string& leaf, const char* parent,
                         std::uint64_t size) {
        CallStackReport stack = model;
        stack.id = id;
        stack.live = stack.alloc = stack.expired = {1, size};
        stack.frames = {frame(id * 16 + 1, "prog", leaf), frame(id * 16 + 2, "prog", parent)};
        report.callstacks.push_back(stack);
    };
    add(1, "large_leaf", "large", 1000000);
    for (std::uint64_t i = 2; i < 12; ++i) {
        add(i, fmt::format("leaf_{}", i), "small", 1000);
    }
    const json results = browse(
        report, {eval(kFrames), click("document.querySelector('g.frame[name=small]')"),
                 eval(kFrames), click("document.querySelector('g.frame[name=leaf_7]')"),
                 eval(kFrames), click("document.querySelector('#unzoom')"),
                 eval("document.querySelector('g.frame[name=large]').getAttribute('width') > "
                      "1000")});
    EXPECT_EQ(results[0], json::parse(R"(["all live memory", "large", "small", "large_leaf"])"));
    EXPECT_EQ(results[1].size(), 12U) << results[1];
    EXPECT_EQ(results[2], json::parse(R"(["all live memory", "small", "leaf_7"])"));
    EXPECT_EQ(results[3], true);
}

TEST_F(HtmlBrowser, AFrameWithoutANameIsModuleAndOffset) {
    Report report = server_report();
    for (CallStackReport& stack : report.callstacks) {
        change_frame(stack.frames, 0, [](SourceFrame& frame) {
            frame.function = "";
            frame.module_offset = 0x89930;
        });
    }
    const json results =
        browse(report, {click("document.querySelector('#rows .open')"),
                        eval("document.querySelector('.backtrace code').textContent")});
    EXPECT_EQ(results, json::array({"libc.so.6+0x89930"}));
}

constexpr const char* kLeaks =
    "[...document.querySelectorAll('#leaks-rows .stack')].map((row) => [...row.children]"
    ".map((each) => each.innerText.replace(/\\s+/g, ' ').trim()))";

TEST_F(HtmlBrowser, LeakCheck) {
    const json results = browse(
        leak_check_report(),
        {eval(kVisibleSections),
         eval("document.querySelector('#leaks-look').textContent"),
         eval("[...document.querySelectorAll('#leaks-totals > div')].map((each) => "
              "each.innerText.replace(/\\s+/g, ' '))"),
         eval(kLeaks),
         click("document.querySelectorAll('#leaks-rows .open')[0]"),
         eval("[...document.querySelectorAll('#leaks-rows .backtrace code')].map((each) => "
              "each.textContent)"),
         eval("document.querySelector('#leaks-rows .addresses').textContent"),
         click("[...document.querySelectorAll('#leaks-classes button')].at(-1)"),
         eval(kLeaks),
         click("document.querySelector('#leaks-rows .open')"),
         eval("[...document.querySelectorAll('#leaks-rows .holders li')].map((each) => "
              "each.textContent)"),
         eval("document.querySelector('#leaks-rows .why').textContent"),
         {{"size", {390, 844}}},
         eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => "
              "done(document.documentElement.scrollWidth))))")});
    EXPECT_EQ(results, json::parse(R"([["verdict", "stacks", "leaks", "flame"],
        "The whole heap at one moment, also of before the watching, by what points to its blocks. The process stood still for 12.5 ms.",
        ["definitely lost 1.5 KiB 15 blocks", "indirectly lost 48 B 2 blocks",
         "possibly lost 0 B 0 blocks", "still reachable 4.2 KiB 7 blocks"],
        [["definitely lost", "foo #3 · foo.c:12", "15", "1.5 KiB", "–"],
         ["indirectly lost", "not known not watched, of 24 bytes each", "2", "48 B", "–"],
         ["still reachable", "shop::Session not watched, of different sizes", "6", "4.1 KiB",
          "5: shop::g_sessions, server.cpp"],
         ["still reachable", "not known not watched, of 96 bytes each", "1", "96 B",
          "shop::g_sessions, server.cpp"]],
        ["malloc", "foo"], "At 0x7f01, 0x7f81, …",
        [["still reachable", "shop::Session not watched, of different sizes", "6", "4.1 KiB",
          "5: shop::g_sessions, server.cpp"],
         ["still reachable", "not known not watched, of 96 bytes each", "1", "96 B",
          "shop::g_sessions, server.cpp"]],
        ["5 of 6 held by shop::g_sessions, server.cpp", "1 of 6 held by stack of thread 7"],
        "still reachable: A chain of pointers leads to them. 6 blocks of different sizes.", 390])"));
}

/// What is counted by call stack and is no allocation.
Report event_report() {
    Report report = sample_report();
    PageFaultReport& faults = report.page_faults.emplace();
    faults.totals = {.minor = 303, .major = 2, .lost = 0, .own = 0, .user_only = false};
    faults.resident = ResidentReport{.ours = 614400,
                                     .untold = 0,
                                     .lost = 0,
                                     .before = ResidentMemory{.rss = 1048576},
                                     .kernel = ResidentMemory{.rss = 1662976, .anonymous = 614400}};
    const TouchedCount file{.kind = TouchedKind::file,
                            .file = "/tmp/</script><b>",
                            .minor = 1,
                            .major = 2,
                            .begin = FileOffset(0x1000),
                            .end = FileOffset(0x3000)};
    faults.stacks = {{.process = 0,
                      .minor = 1,
                      .major = 2,
                      .touched = {file},
                      .still_bytes = 0,
                      .frames = {},
                      .end = StackEnd::limit},
                     {.process = 0,
                      .minor = 302,
                      .major = 0,
                      .touched = {{.kind = TouchedKind::anonymous,
                                   .file = "",
                                   .minor = 300,
                                   .major = 0,
                                   .begin = {},
                                   .end = {}},
                                  {.kind = TouchedKind::heap,
                                   .file = "",
                                   .minor = 2,
                                   .major = 0,
                                   .begin = {},
                                   .end = {}}},
                      .still_bytes = 614400,
                      .frames = {frame(0x400999, "test", "touch", 5, "t.c", 9),
                                 frame(0x400aaa, "test", "main", 5, "t.c", 20)},
                      .end = StackEnd::outermost}};
    ProbeReport probe;
    probe.name = "demo:step";
    probe.calls = 12;
    probe.stacks = {{.calls = 2, .frames = {}, .end = StackEnd::limit},
                    {.calls = 10,
                     .frames = {frame(0x400bbb, "test", "step", 5, "t.c", 30)},
                     .end = StackEnd::outermost}};
    report.probes = {probe};
    return report;
}

TEST_F(HtmlBrowser, PageFaultsAndProbes) {
    const auto cells = [](const char* section) {
        return fmt::format("[...document.querySelectorAll('#{}-rows .stack')].map((row) => "
                           "[...row.children].map((each) => each.innerText.replace(/\\s+/g, ' ')"
                           ".trim()))",
                           section);
    };
    const std::string faults = cells("faults");
    const std::string probes = cells("probes");
    const json results = browse(
        event_report(),
        {eval(kVisibleSections),
         eval("document.querySelector('#faults-totals').textContent"),
         eval("document.querySelector('#faults-resident').textContent"),
         eval("document.querySelector('#faults-columns').innerText.split(/\\s*\\t\\s*/)"),
         eval(faults.c_str()),
         click("document.querySelector('#faults-rows .open')"),
         eval("[...document.querySelectorAll('#faults-rows .backtrace code')].map((each) => "
              "each.textContent)"),
         eval("[...document.querySelectorAll('#probes-lines li')].map((each) => "
              "each.textContent)"),
         eval(probes.c_str()),
         {{"size", {390, 844}}},
         eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => "
              "done(document.documentElement.scrollWidth))))")});
    EXPECT_EQ(results, json::parse(R"js([["verdict", "stacks", "faults", "probes", "flame"],
        "303 minor, 2 major.",
        "Still there: 600.0 KiB by call stacks; the kernel has 1.6 MiB (600.0 KiB anonymous), of which 1.0 MiB from before: the same.",
        ["Where", "Minor", "Major", "Still there", "Touched"],
        [["touch t.c:9", "302", "0", "600.0 KiB", "300 anonymous, 2 heap"],
         ["no backtrace backtrace limit", "1", "2", "0 B", "3 /tmp/</script><b> (0x1000-0x3000)"]],
        ["touch", "main"], ["demo:step: 12 calls"],
        [["step t.c:30", "10", "demo:step"], ["no backtrace backtrace limit", "2", "demo:step"]],
        390])js"));
}

// What is not followed has no section, and what is not known no column.
TEST_F(HtmlBrowser, PageFaultsAlone) {
    Report report = event_report();
    report.probes.reset();
    report.page_faults->resident.reset();
    const json results = browse(
        report, {eval(kVisibleSections), eval("document.querySelector('#faults-resident').hidden"),
                 eval("document.querySelector('#faults-columns').childElementCount"),
                 eval("document.querySelector('#faults-rows .stack').childElementCount")});
    EXPECT_EQ(results, json::parse(R"([["verdict", "stacks", "faults", "flame"], true, 4, 4])"));
}

TEST_F(HtmlBrowser, AnIncompleteLeakCheck) {
    Report report = leak_check_report();
    report.leak_check->complete = false;
    report.leak_check->why = "it has ended";
    report.leak_check->pause_s = 0;
    const json results =
        browse(report, {eval(kVisibleSections), eval(kLeaks),
                        eval("document.querySelector('#leaks').innerText.trim()")});
    EXPECT_EQ(results, json::parse(R"([["verdict", "stacks", "leaks", "flame"], [],
        "Leak check\n\nIncomplete: it has ended. Nothing is said of any block."])"));
}

// Of several processes one has ended; the blocks of the other are there.
TEST_F(HtmlBrowser, LeakCheckOfSomeProcesses) {
    constexpr const char* kLook = "document.querySelector('#leaks-look').textContent";
    Report report = leak_checks_of_two(false);
    report.leak_check->pause_s = 0.003;
    EXPECT_EQ(browse(report, {eval(kVisibleSections), eval(kLook), eval(kLeaks)}),
              json::parse(R"([["verdict", "leaks"],
        "The whole heap of 1 of 2 processes, each at one moment, also of before the watching, by what points to its blocks. Nothing is said of any block of the other one: it has ended. The processes stood still for 3 ms in all.",
        [["definitely lost", "not known server-7 · not watched, of 100 bytes each", "1", "100 B", "–"]]])"));
    report.processes.resize(4);
    EXPECT_THAT(browse(report, json::array({eval(kLook)}))[0].get<std::string>(),
                HasSubstr(" of any block of the other 3; of the first: it has ended. "));
    report = leak_checks_of_two(true);
    report.leak_check->unlisted = "malloc is unknown";
    EXPECT_EQ(browse(report, json::array({eval(kLook)})), json::parse(R"([
        "Only blocks that were watched, of all 2 processes, each at one moment, by what points to them (malloc is unknown)."])"));
}

TEST_F(HtmlBrowser, WhatWasNotFollowed) {
    Report report;
    report.session.events.unfollowed_alloc = 5;
    report.unfollowed = {{0, {2, 16}, Unseen::no_breakpoint, {}, StackEnd::limit},
                         {0, {3, 3000}, Unseen::generated_code, small_stack()}};
    const json results = browse(
        report, {eval(kVisibleSections),
                 eval("document.querySelector('#facts').innerText"),
                 eval("[...document.querySelectorAll('#unfollowed-rows .stack')].map((row) => "
                      "[...row.children].map((each) => each.innerText.replace(/\\s+/g, ' ')"
                      ".trim()))"),
                 {{"size", {390, 844}}},
                 eval("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() "
                      "=> done(document.documentElement.scrollWidth))))")});
    EXPECT_EQ(results[0], json::parse(R"(["verdict", "unfollowed"])"));
    EXPECT_THAT(results[1].get<std::string>(), HasSubstr("Allocations not followed\n5"));
    EXPECT_EQ(results[2],
              json::array({{"foo foo.c:12", "3", "2.9 KiB", describe(Unseen::generated_code)},
                           {"no backtrace backtrace limit", "2", "16 B",
                            describe(Unseen::no_breakpoint)}}));
    EXPECT_EQ(results[3], 390);
}

TEST_F(HtmlBrowser, ALookWithoutWatching) {
    LeakCheckReport report;
    static_cast<LeakFindings&>(report) = *leak_check_report().leak_check;
    report.records.erase(report.records.begin()); // its call stack was watched
    report.version = "2";
    report.pid = 16129;
    report.exe = "/srv/shopd";
    report.arch = "x86_64";
    report.threads = 1;
    StringSink page;
    find_report_format("html")->write_leak_check(report, page);
    const json results =
        browse(page.text, {eval(kReady), eval("document.title"), eval(kVisibleSections),
                           eval("document.querySelector('#session').innerText"),
                           eval("document.querySelector('#facts').innerText"),
                           eval("document.querySelector('#made').innerText"),
                           eval("document.querySelector('#leaks-look').textContent"),
                           eval("document.querySelector('#leaks-columns').innerText"), eval(kLeaks),
                           click("document.querySelectorAll('#leaks-rows .open')[0]"),
                           eval("document.querySelector('#leaks-rows .details').innerText")});
    EXPECT_EQ(results, json::parse(R"(["yes", "shopd 16129: memleax report", ["verdict", "leaks"],
        "shopd 16129 · 1 thread · looked at once", "",
        "Made by memleax 2 (x86_64). This page is whole: it fetches nothing.",
        "The whole heap at one moment, by what points to its blocks. The process stood still for 12.5 ms.",
        "Class\tType\tBlocks\tBytes\tHeld by",
        [["indirectly lost", "type not known of 24 bytes each", "2", "48 B", "–"],
         ["still reachable", "shop::Session of different sizes", "6", "4.1 KiB",
          "5: shop::g_sessions, server.cpp"],
         ["still reachable", "type not known of 96 bytes each", "1", "96 B",
          "shop::g_sessions, server.cpp"]],
        "indirectly lost: Only lost blocks point to them. 2 blocks of 24 bytes each.\n\nAt 0x8010, 0x8030"])"));
}

TEST_F(HtmlBrowser, NamesAreTextOnly) {
    const std::string evil =
        "</script><img src=\"http://host.invalid/x\" onerror=\"alert(1)\">\xff";
    Report report = server_report();
    report.target.exe = "/bin/" + evil;
    for (CallStackReport& stack : report.callstacks) {
        change_frame(stack.frames, 2, [&evil](SourceFrame& frame) {
            frame.function = frame.module = frame.file = evil;
        });
    }
    const json results =
        browse(report, {click("document.querySelector('#rows .open')"),
                        eval("document.images.length + document.querySelectorAll('script').length"),
                        eval("document.querySelector('.backtrace .own code').textContent")});
    EXPECT_EQ(results, json::array({16, evil.substr(0, evil.size() - 1) + "\xef\xbf\xbd"}));
}

} // namespace
} // namespace memleax
