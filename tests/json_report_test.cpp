// SPDX-License-Identifier: GPL-3.0-or-later
// The JSON report, compared with golden text: names, order and absence of fields are the format.
#include "memleax/report/report.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "report_support.hpp"

namespace memleax {
namespace {

using nlohmann::json;
using testing::HasSubstr;
using testing::Not;

TEST(JsonReport, WhoseMemoryIsShort) {
    Report report = sample_report();
    report.session.saved_because = "RSS of process 4711 is 2.0 GiB (--at-memory 2G)";
    MemoryLook first;
    first.process.rss = 1000;
    first.process.minor_faults = 7;
    first.group.path = "/app";
    first.group.folder = "/sys/fs/cgroup/app";
    first.group.version_2 = true;
    first.group.at_limit = 3;
    first.machine.available = 5000;
    first.machine.pressure = MemoryPressure{StalledTime{0, 0, 0, 40}, {}};
    MemoryLook last = first;
    last.process.rss = 900;
    last.process.oom_score = 667;
    last.group.limit = 8000;
    last.group.at_limit = 5;
    last.machine.available = 4500;
    last.machine.pressure = MemoryPressure{StalledTime{1.5, 0.5, 0.25, 90}, {}};
    report.processes.resize(1);
    report.processes[0].looks = MemoryLooks{first, last};
    const json all = json::parse(text_of(write_json, report));
    EXPECT_EQ(all.at("session").at("saved_because"),
              "RSS of process 4711 is 2.0 GiB (--at-memory 2G)");
    EXPECT_EQ(all.at("memory"), json::parse(R"({
        "short": "nobody", "verdict": "nothing is short of memory",
        "process": {"rss_bytes": 900, "rss_bytes_change": -100, "minor_faults": 7,
                    "minor_faults_change": 0, "oom_score": 667},
        "group": {"path": "/app", "version": 2, "limit_bytes": 8000, "at_limit": 5,
                  "at_limit_change": 2},
        "machine": {"available_bytes": 4500, "available_bytes_change": -500,
                    "pressure": {"some": {"avg10": 1.5, "avg60": 0.5, "avg300": 0.25,
                                          "total_us": 90, "total_us_change": 50}}}})"));
    report.follows_forks = true;
    const json several = json::parse(text_of(write_json, report));
    EXPECT_FALSE(several.contains("memory"));
    EXPECT_EQ(several.at("processes")[0].at("memory"), all.at("memory"));
}

TEST(JsonReport, Whole) {
    Report report = sample_report();
    report.callstacks.erase(report.callstacks.begin()); // two show all forms
    change_frame(report.callstacks[1].frames, 0, [](SourceFrame& frame) {
        frame.inlined = true;
        frame.offset.reset();
    });
    EXPECT_EQ(text_of(write_json, report), R"text({
  "memleax": {
    "version": "2.0.0"
  },
  "target": {
    "pid": 4711,
    "exe": "/usr/bin/test",
    "arch": "x86_64",
    "threads": 5
  },
  "session": {
    "engine": "int3",
    "duration_s": 12.345,
    "expire_s": 10.0,
    "end_reason": "time",
    "events": {
      "alloc": 1001,
      "free": 1,
      "realloc": 2,
      "failed_alloc": 3,
      "unfollowed_alloc": 0,
      "unknown_free": 4,
      "double_free": 1,
      "invalid_free": 0,
      "mismatched_free": 0
    }
  },
  "totals": {
    "live_blocks": 22,
    "live_bytes": 2125,
    "expired_blocks": 21,
    "expired_bytes": 2025
  },
  "callstacks": [
    {
      "id": 7,
      "expired_blocks": 3,
      "expired_bytes": 30,
      "free_expired_blocks": 2,
      "free_expired_bytes": 25,
      "alloc_blocks": 9,
      "alloc_bytes": 90,
      "free_blocks": 8,
      "free_bytes": 85,
      "live_blocks": 1,
      "live_bytes": 5,
      "freed_lifetime_s": {
        "min": 0.5,
        "mean": 2.25,
        "max": 11.0
      },
      "oldest_live_s": 12.5,
      "frames": [],
      "stack_end": "no unwind information"
    },
    {
      "id": 3,
      "expired_blocks": 20,
      "expired_bytes": 2020,
      "free_expired_blocks": 0,
      "free_expired_bytes": 0,
      "alloc_blocks": 20,
      "alloc_bytes": 2020,
      "free_blocks": 0,
      "free_bytes": 0,
      "live_blocks": 20,
      "live_bytes": 2020,
      "oldest_live_s": 20.0,
      "where": "foo (foo.c:12)",
      "where_frame": 1,
      "frames": [
        {
          "pc": "0x7fd322bd8220",
          "module": "libc.so.6",
          "function": "malloc",
          "inlined": true
        },
        {
          "pc": "0x40084e",
          "module": "test",
          "function": "foo",
          "offset": 14,
          "file": "foo.c",
          "line": 12
        }
      ]
    }
  ]
}
)text");
}

TEST(JsonReport, Empty) {
    const json parsed = json::parse(text_of(write_json, Report{}));
    EXPECT_EQ(parsed.at("callstacks"), json::array());
    EXPECT_EQ(parsed.at("totals").at("live_bytes"), 0);
}

TEST(JsonReport, CallStacksWithLiveBlocksOnlyAreIn) {
    EXPECT_EQ(json::parse(text_of(write_json, sample_report())).at("callstacks").size(), 3U);
}

TEST(JsonReport, WhereIsAsTheReportNamesIt) {
    Report report = sample_report();
    report.callstacks.back().where = 0;
    const json stacks = json::parse(text_of(write_json, report)).at("callstacks");
    EXPECT_EQ(stacks.back().at("where"), "malloc (libc.so.6)");
    EXPECT_EQ(stacks.back().at("where_frame"), 0);
    EXPECT_FALSE(stacks.at(1).contains("where")); // no frames
}

TEST(JsonReport, CoverageIfMemoryIsKnown) {
    Report report = sample_report();
    EXPECT_FALSE(json::parse(text_of(write_json, report)).contains("coverage"));
    report.memory = {{0, 0, 1'000'000}, {60, 11'000, 25'000'000}};
    EXPECT_EQ(json::parse(text_of(write_json, report)).at("coverage"),
              (json{{"rss_growth_bytes", 24'000'000}, {"watched_bytes", 11'000}, {"gap", true}}));
}

TEST(JsonReport, SaysWhatTheWatchingCost) {
    Report report;
    EXPECT_FALSE(json::parse(text_of(write_json, report)).at("session").contains("stops"));
    report.session.stops = {.running = 7, .stopped = 1};
    EXPECT_EQ(json::parse(text_of(write_json, report)).at("session").at("stops"),
              (json{{"looks", 8}, {"stopped", 1}, {"share", 0.125}}));
}

TEST(JsonReport, TellsHowTheProcessHasEnded) {
    Report report;
    report.session.end_reason = "target-exit";
    report.processes.resize(1);
    const auto session = [&report](std::optional<int> status) {
        report.processes[0].status = status;
        return json::parse(text_of(write_json, report)).at("session");
    };
    EXPECT_EQ(session(7 << 8).at("exit_status"), 7);
    EXPECT_FALSE(session(7 << 8).contains("signal"));
    EXPECT_EQ(session(9).at("signal"), 9);
    EXPECT_FALSE(session(9).contains("exit_status"));
    EXPECT_FALSE(session({}).contains("exit_status"));
    // Of several processes each has its own.
    report.follows_forks = true;
    EXPECT_FALSE(session(7 << 8).contains("exit_status"));
    // It was left, and ended while it was.
    report.follows_forks = false;
    report.session.end_reason = "time";
    EXPECT_FALSE(session(7 << 8).contains("exit_status"));
}

TEST(JsonReport, LeakCheckOfEachProcess) {
    Report report = sample_report();
    report.follows_forks = true;
    report.processes.resize(2);
    report.processes[1].number = 2;
    report.processes[1].pid = 8;
    report.processes[1].leak_check.emplace().complete = true;
    report.processes[1].leak_check->totals[0] = {1, 100};
    LeakRecord record;
    record.count = {1, 100};
    record.process = 1;
    report.leak_check = *report.processes[1].leak_check;
    report.leak_check->records = {record};
    const json all = json::parse(text_of(write_json, report));
    EXPECT_FALSE(all.at("processes")[0].contains("leak_check")) << "nobody has looked";
    const json& own = all.at("processes")[1].at("leak_check");
    EXPECT_EQ(own.at("definite"), json::parse(R"({"blocks": 1, "bytes": 100})"));
    EXPECT_FALSE(own.contains("records"));
    EXPECT_EQ(all.at("leak_check").at("records"), json::parse(R"([{"class": "definite", "blocks": 1,
        "bytes": 100, "addresses": [], "process": 2, "pid": 8}])"));
    report.leak_check->complete = false; // the other one has ended
    const json some = json::parse(text_of(write_json, report));
    EXPECT_EQ(some.at("leak_check").at("complete"), false);
    EXPECT_EQ(some.at("leak_check").at("records"), all.at("leak_check").at("records"));
}

TEST(JsonReport, NumbersAreExact) {
    constexpr std::uint64_t kMax = 18446744073709551615U;
    Report report = sample_report();
    report.callstacks[2].alloc = {kMax, kMax - 1};
    report.session.events.unknown_free = kMax;
    change_frame(report.callstacks[2].frames, 1,
                 [](SourceFrame& frame) { frame.pc = CodeAddr(kMax); });
    const std::string text = text_of(write_json, report);
    EXPECT_THAT(text, HasSubstr("\"alloc_blocks\": 18446744073709551615,"));
    EXPECT_THAT(text, HasSubstr("\"alloc_bytes\": 18446744073709551614,"));
    EXPECT_THAT(text, HasSubstr("\"unknown_free\": 18446744073709551615,"));
    EXPECT_THAT(text, HasSubstr("\"pc\": \"0xffffffffffffffff\""));
    EXPECT_EQ(json::parse(text).at("callstacks")[2].at("alloc_blocks").get<std::uint64_t>(), kMax);
}

TEST(JsonReport, FrameWithoutNames) {
    Report report = sample_report();
    report.callstacks[2].frames = {SourceFrame{}};
    EXPECT_EQ(json::parse(text_of(write_json, report)).at("callstacks")[2].at("frames"),
              json::parse(R"([{"pc": "0x0"}])"));
}

TEST(JsonReport, LineOnlyIfKnown) {
    Report report = sample_report();
    change_frame(report.callstacks[2].frames, 1, [](SourceFrame& frame) { frame.line = 0; });
    EXPECT_THAT(text_of(write_json, report), HasSubstr("\"file\": \"foo.c\"\n"));
}

TEST(JsonReport, NamesNeedNotBeUtf8) {
    Report report = sample_report();
    report.target.exe = "/tmp/\xff\"\n\x1b";
    change_frame(report.callstacks[2].frames, 1, [](SourceFrame& frame) {
        frame.function = "f\xc3"; // a cut sequence
        frame.module = "\xc3\xa4";
    });
    const std::string text = text_of(write_json, report);
    EXPECT_THAT(text, Not(HasSubstr("\xff")));
    const json parsed = json::parse(text);
    EXPECT_EQ(parsed.at("target").at("exe"), "/tmp/\xef\xbf\xbd\"\n\x1b");
    const json& frame = parsed.at("callstacks")[2].at("frames")[1];
    EXPECT_EQ(frame.at("function"), "f\xef\xbf\xbd");
    EXPECT_EQ(frame.at("module"), "\xc3\xa4");
}

} // namespace
} // namespace memleax
