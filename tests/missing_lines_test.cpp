// SPDX-License-Identifier: GPL-3.0-or-later
// Which files' debug information would say more of the leaks.
#include "../src/report/missing_lines.hpp"

#include <string>

#include <gtest/gtest.h>

#include "report_support.hpp"

namespace memleax {
namespace {

CallStackReport leak_in(const std::string& module, const std::string& file = "") {
    CallStackReport stack;
    stack.expired = stack.live = stack.alloc = {1, 100};
    SourceFrame place;
    place.module = module;
    place.function = "grow";
    place.file = file;
    stack.frames = Backtrace{place};
    return stack;
}

TEST(MissingLines, EachFileIsNamedOnceWithItsBuildId) {
    Report report;
    report.callstacks = {leak_in("server"), leak_in("server"), leak_in("other", "other.c")};
    report.modules = {{"/opt/other", "00ff", {}, 0}, {"/usr/bin/server", "5a3f", {}, 0}};
    EXPECT_EQ(missing_lines_text(report),
              "== No line numbers for server (build ID 5a3f): install its debug package, set "
              "DEBUGINFOD_URLS, or compile it with -g.\n");
    report.callstacks.push_back(leak_in("libx.so.1"));
    EXPECT_EQ(missing_lines_text(report),
              "== No line numbers for server (build ID 5a3f), libx.so.1: install their debug "
              "packages, set DEBUGINFOD_URLS, or compile them with -g.\n");
}

TEST(MissingLines, AFewAreEnough) {
    Report report;
    for (const char* file : {"a", "b", "\x1b[2J", "d", "e"}) {
        report.callstacks.push_back(leak_in(file));
    }
    EXPECT_EQ(missing_lines_text(report),
              "== No line numbers for a, b, ?[2J and 2 more: install their debug packages, set "
              "DEBUGINFOD_URLS, or compile them with -g.\n");
}

// A file whose leak has its line; code that is in no file; what has not expired.
TEST(MissingLines, NothingElseIsNamed) {
    Report report;
    report.callstacks = {leak_in("server", "server.c"), leak_in(""), leak_in("[vdso]"),
                         CallStackReport()};
    EXPECT_EQ(missing_lines_text(report), "");
    report.callstacks.push_back(leak_in("young"));
    report.callstacks.back().expired = {};
    EXPECT_EQ(missing_lines_text(report), "");
}

TEST(MissingLines, StandBeforeTheSum) {
    Report report;
    report.callstacks = {leak_in("server")};
    const std::string text = text_of(write_text, report);
    const auto line = text.find("== No line numbers for server: ");
    ASSERT_NE(line, std::string::npos) << text;
    EXPECT_LT(line, text.find("== 1 call stack may leak: ")) << text;
}

} // namespace
} // namespace memleax
