// SPDX-License-Identifier: GPL-3.0-or-later
// memleax --track faults,mmap,brk on programs that know which of the pages that they touched are
// still there.
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "process_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

std::int64_t page_size() {
    return sysconf(_SC_PAGESIZE);
}

std::string touching_function(const nlohmann::json& stack) {
    for (const auto& frame : stack.at("frames")) {
        std::string function = frame.value("function", "");
        if (function.starts_with("touch_")) {
            return function;
        }
    }
    return "";
}

/// Has this call stack touched what its function is there for? Not its code, nor its stack.
bool is_meant(const std::string& function, const nlohmann::json& stack) {
    bool meant = false;
    for (const auto& touched : stack.at("touched")) {
        const std::string what = touched.at("what");
        meant |= touched.contains("file") ? what == "/memfd:touched"
                                          : (what == "stack") == (function == "touch_stack");
    }
    return meant;
}

using Pages = std::map<std::string, std::int64_t>;

/// Still there, by the function that touched; of this process only, if one is named.
Pages by_function(const nlohmann::json& report, int process = 0) {
    Pages result;
    for (const auto& stack : report.at("page_faults").at("callstacks")) {
        const auto& still = stack.at("still");
        EXPECT_EQ(still.at("bytes"), still.at("pages").get<std::int64_t>() * page_size()) << stack;
        const std::string function = touching_function(stack);
        if ((process == 0 || stack.at("process") == process) && is_meant(function, stack)) {
            result[function] += still.at("pages").get<std::int64_t>();
        }
    }
    result.erase("");
    return result;
}

Pages pages_of(const Leaks& truth) {
    Pages result;
    for (const auto& [function, kept] : truth) {
        result[function] = kept.blocks;
    }
    return result;
}

/// `resident` adds up.
void expect_sum(const nlohmann::json& resident) {
    const auto theirs = [](const nlohmann::json& memory) {
        return memory.at("rss").get<std::int64_t>() - memory.at("memleax").get<std::int64_t>();
    };
    EXPECT_EQ(resident.at("difference"), theirs(resident.at("kernel")) -
                                             theirs(resident.at("before")) -
                                             resident.at("ours").get<std::int64_t>());
}

std::vector<std::string> options(const std::string& kinds) {
    return {"-F", "json", "-e", "1000", "--track", kinds};
}

/// What the fixture answers to so many rounds, and the report of one visit.
std::pair<FixtureAnswer, nlohmann::json> visit(Fixture& fixture, std::vector<std::string> options,
                                               int rounds = 1) {
    options.push_back(std::to_string(fixture.pid()));
    Memleax memleax(options);
    memleax.wait_until_watching();
    FixtureAnswer answer;
    for (int round = 0; round < rounds; ++round) {
        answer = fixture.go();
        EXPECT_THAT(answer.failures, IsEmpty());
    }
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = result.json();
    EXPECT_EQ(report.at("page_faults").at("lost"), 0);
    return {std::move(answer), report};
}

TEST(PagesStillThere, EachWayToGiveBackIsExact) {
    Fixture fixture("page_keeper");
    const TargetSnapshot before = take_snapshot(fixture.pid());
    const auto [answer, report] = visit(fixture, options("faults,mmap,brk"), 3);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(by_function(report), pages_of(answer.truth));
    EXPECT_EQ(answer.truth.at("touch_mapped").blocks, 3 * 150);
    expect_sum(report.at("page_faults").at("resident"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PagesStillThere, BesideTheHeap) {
    Fixture fixture("page_keeper");
    const auto [answer, report] = visit(fixture, options("heap,mmap,brk,shm,faults"));
    EXPECT_EQ(by_function(report), pages_of(answer.truth));
    EXPECT_EQ(fixture.quit(), 0);
}

// All that the second round runs through is there already, so nothing comes in without a fault.
TEST(PagesStillThere, TheKernelHasAsMuch) {
    Fixture fixture("page_keeper");
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    const auto [answer, report] = visit(fixture, options("faults,mmap,brk"));
    const auto& resident = report.at("page_faults").at("resident");
    EXPECT_EQ(resident.at("difference"), 0) << resident;
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PagesStillThere, WhatIsTouchedAndGivenBackAtOnce) {
    Fixture fixture("page_keeper", {"churn"});
    const auto [answer, report] = visit(fixture, options("faults,mmap,brk"));
    EXPECT_EQ(by_function(report), pages_of(answer.truth));
    EXPECT_EQ(fixture.quit(), 0);
}

// One fault brings all of it, and parts of it go.
TEST(PagesStillThere, HugePages) {
    std::string enabled;
    std::getline(std::ifstream("/sys/kernel/mm/transparent_hugepage/enabled"), enabled);
    if (enabled.empty() || enabled.find("[never]") != std::string::npos) {
        GTEST_SKIP() << "this kernel makes no huge pages: " << enabled;
    }
    std::int64_t huge = 0;
    std::ifstream("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size") >> huge;
    if (7 * huge > sysconf(_SC_PHYS_PAGES) * page_size()) { // 512 MiB each with pages of 64 KiB
        GTEST_SKIP() << "there is not enough memory for the program's huge pages";
    }
    Fixture fixture("page_keeper", {"huge"});
    const auto [answer, report] = visit(fixture, options("faults,mmap,brk"));
    EXPECT_EQ(by_function(report), pages_of(answer.truth)) << report.at("page_faults");
    EXPECT_GT(answer.truth.at("touch_split").blocks, 11) << "there was no huge page";
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PagesStillThere, OfThreadsThatHaveEnded) {
    Fixture fixture("page_keeper", {"threads"});
    const auto [answer, report] = visit(fixture, options("faults,mmap,brk"));
    EXPECT_EQ(by_function(report), pages_of(answer.truth)) << report.at("page_faults");
    EXPECT_LT(answer.truth.at("touch_stack").blocks, 3 * 64);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PagesStillThere, NoneIsLeftAfterExec) {
    Fixture fixture("page_keeper", {"exec"});
    const auto [answer, report] = visit(fixture, options("faults,mmap,brk"));
    EXPECT_EQ(by_function(report), pages_of(answer.truth));
    expect_sum(report.at("page_faults").at("resident"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PagesStillThere, AChildHasWhatItTouches) {
    Fixture fixture("page_keeper", {"fork"});
    auto follow = options("faults,mmap,brk");
    follow.emplace_back("--follow-forks");
    const auto [answer, report] = visit(fixture, follow);
    EXPECT_EQ(by_function(report, 1), (Pages{{"touch_mapped", 100}}));
    EXPECT_EQ(by_function(report, 2), (Pages{{"touch_in_child", 35}}));
    std::int64_t ours = 0;
    for (const auto& process : report.at("processes")) {
        const auto& resident = process.at("page_faults").at("resident");
        expect_sum(resident);
        ours += resident.at("ours").get<std::int64_t>();
    }
    const auto& all = report.at("page_faults").at("resident");
    EXPECT_EQ(all.at("ours"), ours);
    expect_sum(all);
    EXPECT_EQ(fixture.quit(), 0);
}

// A process that has ended has nothing that the kernel could tell of.
TEST(PagesStillThere, WhenTheProcessHasEnded) {
    Fixture fixture("page_keeper");
    auto words = options("faults,mmap,brk");
    words.push_back(std::to_string(fixture.pid()));
    Memleax memleax(words);
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    EXPECT_EQ(fixture.quit(), 0);
    const auto report = memleax.finish().json();
    EXPECT_EQ(by_function(report), pages_of(answer.truth));
    const auto& resident = report.at("page_faults").at("resident");
    EXPECT_TRUE(resident.contains("before"));
    EXPECT_FALSE(resident.contains("kernel"));
    EXPECT_FALSE(resident.contains("difference"));
}

TEST(PagesStillThere, AreNotToldWithoutMappings) {
    for (const char* kinds : {"faults", "faults,mmap", "faults,brk"}) {
        Fixture fixture("page_keeper");
        const auto [answer, report] = visit(fixture, options(kinds));
        EXPECT_FALSE(report.at("page_faults").contains("resident")) << kinds;
        EXPECT_THAT(report.at("page_faults").dump(), Not(HasSubstr("\"still\""))) << kinds;
    }
}

TEST(PagesStillThere, InText) {
    Fixture fixture("page_keeper");
    Memleax memleax({"-e", "1000", "--track", "faults,mmap,brk", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const std::string text = memleax.interrupt_and_finish().output;
    EXPECT_THAT(text,
                ContainsRegex("== Page faults: [0-9]+ minor, 0 major\\.\n"
                              "== Still there: [0-9.]+ [KM]iB by call stacks.*; the kernel "
                              "has [0-9.]+ [KM]iB \\([0-9.]+ [KM]iB anonymous\\), of which "
                              "[0-9.]+ [KM]iB from before( and [0-9.]+ KiB of memleax.s own)?: "));
    const std::int64_t kib = 150 * page_size() / 1024;
    EXPECT_THAT(text,
                HasSubstr(fmt::format(
                    "Page faults: 300 minor, 0 major; still there: {}: 300 anonymous",
                    kib < 1024 ? fmt::format("{}.0 KiB", kib)
                               : fmt::format("{:.1f} MiB", static_cast<double>(kib) / 1024))));
}

} // namespace
} // namespace memleax::testing
