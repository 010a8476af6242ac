// SPDX-License-Identifier: GPL-3.0-or-later
// Which files' debug information would say more of the leaks.
#include "../src/report/missing_lines.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "report_support.hpp"

namespace memleax {
namespace {

constexpr std::uint64_t kSize = 0x1000;

/// `names` with an address range each, one behind the other.
Report report_with(const std::vector<std::string>& names) {
    Report report;
    for (const std::string& name : names) {
        const std::uint64_t begin = (report.modules.size() + 1) * kSize;
        report.modules.push_back({"/lib/" + name, "", {begin, begin + kSize}, 0});
    }
    return report;
}

/// In the module that is there.
CallStackReport leak_in(const Report& report, std::size_t module, const std::string& file = "") {
    CallStackReport stack;
    stack.expired = stack.live = stack.alloc = {1, 100};
    const Report::Module& in = report.modules.at(module);
    stack.frames = {frame(in.range.begin + 8, in.path.substr(5), "grow", 8, file)};
    return stack;
}

TEST(MissingLines, EachFileIsNamedOnceWithItsBuildId) {
    Report report = report_with({"other", "server", "libx.so.1"});
    report.modules[1].build_id = "5a3f";
    report.callstacks = {leak_in(report, 1), leak_in(report, 1), leak_in(report, 0, "other.c")};
    EXPECT_EQ(missing_lines_text(report),
              "== No line numbers for server (build ID 5a3f): install its debug package, set "
              "DEBUGINFOD_URLS, or compile it with -g.\n");
    report.callstacks.push_back(leak_in(report, 2));
    EXPECT_EQ(missing_lines_text(report),
              "== No line numbers for server (build ID 5a3f), libx.so.1: install their debug "
              "packages, set DEBUGINFOD_URLS, or compile them with -g.\n");
}

TEST(MissingLines, TheBuildIdIsThatOfTheFileAtThatPlace) {
    Report report = report_with({"plugin.so", "plugin.so"});
    report.modules[0].build_id = "00aa";
    report.modules[1].build_id = "00bb";
    report.callstacks = {leak_in(report, 0)};
    EXPECT_NE(missing_lines_text(report).find("plugin.so (build ID 00aa):"), std::string::npos);
}

TEST(MissingLines, AFewAreEnough) {
    Report report = report_with({"a", "b", "\x1b[2J", "d", "e"});
    for (std::size_t i = 0; i < 5; ++i) {
        report.callstacks.push_back(leak_in(report, i));
    }
    EXPECT_EQ(missing_lines_text(report),
              "== No line numbers for a, b, ?[2J and 2 more: install their debug packages, set "
              "DEBUGINFOD_URLS, or compile them with -g.\n");
}

// A file whose leak has its line; code that is in no file, though it may have names; what has not
// expired.
TEST(MissingLines, NothingElseIsNamed) {
    Report report = report_with({"server", "young"});
    CallStackReport generated = leak_in(report, 0);
    generated.frames = {frame(0x77777, "perf-12.map", "grow")};
    report.callstacks = {leak_in(report, 0, "server.c"), generated, CallStackReport()};
    EXPECT_EQ(missing_lines_text(report), "");
    report.callstacks.push_back(leak_in(report, 1));
    report.callstacks.back().expired = {};
    EXPECT_EQ(missing_lines_text(report), "");
}

TEST(MissingLines, StandBeforeTheSum) {
    Report report = report_with({"server"});
    report.callstacks = {leak_in(report, 0)};
    const std::string text = text_of(write_text, report);
    const auto line = text.find("== No line numbers for server: ");
    ASSERT_NE(line, std::string::npos) << text;
    EXPECT_LT(line, text.find("== 1 call stack may leak: ")) << text;
}

} // namespace
} // namespace memleax
