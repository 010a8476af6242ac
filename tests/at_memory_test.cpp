// SPDX-License-Identifier: GPL-3.0-or-later
// --at-memory: the report is saved when a process, or its control group, passes the threshold,
// while the watching goes on.
#include <chrono>
#include <filesystem>
#include <fstream>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>

#include "commands_support.hpp"
#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "limited_group_support.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

using nlohmann::json;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

std::string pid_of(const Fixture& fixture) {
    return std::to_string(fixture.pid());
}

class AtMemory : public ::testing::Test {
  protected:
    std::string file(const std::string& name) const { return folder_.file(name); }
    /// Until memleax says on stderr that it has saved this file.
    void expect_saved(Memleax& memleax, const std::string& path) {
        EXPECT_TRUE(memleax.process().find_error_line(path + " saved as ")) << path;
    }

    test::TemporaryFolder folder_;
};

TEST_F(AtMemory, OfTheProcessIsSavedOnceForEachRise) {
    Fixture fixture("grower");
    Memleax memleax({"-F", "json", "-o", file("end.json"), "-e", "1000", "--at-memory", "60M",
                     pid_of(fixture)});
    memleax.wait_until_watching();
    fixture.ask("grow 20");
    const FixtureAnswer grown = fixture.ask("grow 50");
    expect_saved(memleax, file("end-at-memory.json"));
    const json at_memory = json::parse(test::read_file(file("end-at-memory.json")));
    expect_truth(at_memory, grown); // the block that was still being touched as well
    EXPECT_EQ(at_memory.at("session").at("end_reason"), "");
    EXPECT_THAT(at_memory.at("session").at("saved_because").get<std::string>(),
                ContainsRegex(fmt::format("^RSS of process {} is [67][0-9]\\.[0-9] MiB "
                                          "\\(--at-memory 60M\\)$",
                                          fixture.pid())));
    EXPECT_GE(at_memory.at("memory").at("process").at("rss_bytes"), 60 << 20);
    fixture.ask("shrink");
    // Where that was seen, the next rise counts; how soon it is seen is memleax's business.
    const auto deadline = std::chrono::steady_clock::now() + kDeadline;
    do {
        ASSERT_LT(std::chrono::steady_clock::now(), deadline);
        fixture.ask("grow 70");
        ::poll(nullptr, 0, 100);
        fixture.ask("shrink");
        ::poll(nullptr, 0, 100);
    } while (!fs::exists(file("end-at-memory-2.json")));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(json::parse(test::read_file(file("end.json"))).at("session").at("end_reason"),
              "user");
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(AtMemory, InEachFormatAndUnderTheUsersName) {
    Fixture fixture("grower");
    for (const char* format : {"text", "html", "folded", "pprof", "callgrind"}) {
        const std::string path = file(fmt::format("{}.report", format));
        Memleax memleax({"-F", format, "-o", file("end"), "--at-memory", "40M", "--at-output", path,
                         "-q", pid_of(fixture)});
        memleax.wait_until_watching();
        fixture.ask("grow 50");
        expect_saved(memleax, path);
        EXPECT_GT(fs::file_size(path), 0U);
        fixture.ask("shrink");
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
    }
    EXPECT_THAT(test::read_file(file("text.report")), HasSubstr("== Saved as RSS of process "));
    EXPECT_THAT(test::read_file(file("html.report")),
                ContainsRegex("Saved after [0-9.]+&nbsp;s as RSS of process "));
    EXPECT_THAT(test::read_file(file("folded.report")), HasSubstr(";grown_block;"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(AtMemory, ThatIsPassedFromTheBeginIsToldAndWaitsForAnotherRise) {
    Fixture fixture("grower");
    fixture.ask("grow 50");
    Memleax memleax({"-q", "--at-memory", "40M", "--at-output", file("r"), pid_of(fixture)});
    EXPECT_TRUE(memleax.process().find_error_line(
        ", beyond --at-memory 40M from the begin: nothing is saved before it has fallen below"));
    fixture.ask("grow 20");
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_FALSE(fs::exists(file("r")));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(AtMemory, OfEachProcess) {
    Fixture first("grower");
    Fixture second("grower");
    Memleax memleax({"-F", "json", "-e", "1000", "--at-memory", "60M", "--at-output",
                     file("%p.json"), pid_of(first), pid_of(second)});
    memleax.wait_until_watching();
    const FixtureAnswer grown = second.ask("grow 70");
    expect_saved(memleax, file(pid_of(second) + ".json"));
    EXPECT_FALSE(fs::exists(file(pid_of(first) + ".json")));
    first.ask("grow 70");
    expect_saved(memleax, file(pid_of(first) + ".json"));
    const json report = json::parse(test::read_file(file(pid_of(second) + ".json")));
    ASSERT_EQ(report.at("processes").size(), 2U) << "the whole report";
    EXPECT_TRUE(report.at("processes")[1].contains("memory"));
    EXPECT_EQ(report.at("totals").at("live_bytes"), grown.truth.at("grown_block").bytes);
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(first.quit(), 0);
    EXPECT_EQ(second.quit(), 0);
}

TEST_F(AtMemory, OfAChildThatIsThere) {
    Fixture parent(CommandLine{{"sh", "-c", "\"$0\"; exit $?", fixture_path("grower")}});
    Memleax memleax({"--children", "-F", "json", "-e", "1000", "--at-memory", "60M", "--at-output",
                     file("%p.json"), pid_of(parent)});
    memleax.wait_until_watching();
    const FixtureAnswer grown = parent.ask("grow 70");
    expect_saved(memleax, ".json");
    std::vector<fs::path> saved;
    for (const auto& entry : fs::directory_iterator(fs::path(file("any")).parent_path())) {
        saved.push_back(entry.path());
    }
    ASSERT_EQ(saved.size(), 1U);
    const json report = json::parse(test::read_file(saved[0]));
    ASSERT_EQ(report.at("processes").size(), 2U) << "the whole report";
    const json& child = report.at("processes")[1];
    EXPECT_NE(child.at("pid"), parent.pid());
    EXPECT_EQ(saved[0].stem(), std::to_string(child.at("pid").get<pid_t>()));
    EXPECT_EQ(report.at("totals").at("live_bytes"), grown.truth.at("grown_block").bytes);
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(parent.quit(), 0);
}

TEST_F(AtMemory, OfAProgramThatMemleaxStarts) {
    Memleax memleax(
        {"-F", "json", "-o", file("end.json"), "--at-memory", "60M", "--", fixture_path("grower")});
    ASSERT_EQ(memleax.process().read_line(), "ready");
    memleax.process().send("grow 70");
    const FixtureAnswer grown = read_answer(memleax.process());
    expect_saved(memleax, file("end-at-memory.json"));
    expect_truth(json::parse(test::read_file(file("end-at-memory.json"))), grown);
    const auto result = memleax.quit_fixture_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
}

TEST_F(AtMemory, AtThePrompt) {
    Fixture fixture("grower");
    Commands commands_of(fixture.pid(), {"-q", "--at-memory", "60M", "--at-output", file("r.txt")});
    commands_of.output_of("status"); // so it is being watched
    fixture.ask("grow 70");
    EXPECT_TRUE(commands_of.memleax().process().find_error_line(file("r.txt") + " saved as RSS"));
    EXPECT_EQ(WEXITSTATUS(commands_of.quit().status), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(AtMemory, ThatCannotBeSavedIsAnErrorAndTheWatchingGoesOn) {
    Fixture fixture("grower");
    fs::create_directory(file("place"));
    Memleax memleax(
        {"-F", "json", "--at-memory", "60M", "--at-output", file("place/r.json"), pid_of(fixture)});
    memleax.wait_until_watching();
    fs::remove(file("place"));
    const FixtureAnswer grown = fixture.ask("grow 70");
    EXPECT_TRUE(memleax.process().find_error_line("cannot write " + file("place/r.json")));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(WEXITSTATUS(result.status), 1) << result.errors;
    expect_truth(result.json(), grown);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(AtMemory, WhereNothingCanBeWrittenNothingBegins) {
    Fixture fixture("grower");
    const auto result =
        Memleax({"--at-memory", "60M", "--at-output", file("no/r"), pid_of(fixture)}).finish();
    EXPECT_EQ(WEXITSTATUS(result.status), 1);
    EXPECT_THAT(result.errors, HasSubstr("cannot write the reports of --at-memory"));
    EXPECT_THAT(result.errors, Not(HasSubstr("watching")));
    EXPECT_EQ(fixture.quit(), 0);
}

class AtGroupMemory : public AtMemory, public ::testing::WithParamInterface<GroupLimit> {};

TEST_P(AtGroupMemory, IsSavedBeforeTheLimitIsReached) {
    const LimitedGroup group(GetParam(), 100 << 20); // goes last: it has to be empty
    Fixture fixture("grower");
    if (!group.takes(fixture.pid())) {
        GTEST_SKIP() << "no " << GetParam().type << " with memory limits that we may use here";
    }
    Memleax memleax({"-F", "json", "-o", file("end.json"), "-e", "1000", "--at-memory", "80%",
                     pid_of(fixture)});
    memleax.wait_until_watching();
    fixture.ask("grow 50");
    const FixtureAnswer grown = fixture.ask("grow 40");
    expect_saved(memleax, file("end-at-memory.json"));
    const json report = json::parse(test::read_file(file("end-at-memory.json")));
    expect_truth(report, grown);
    EXPECT_THAT(report.at("session").at("saved_because").get<std::string>(),
                ContainsRegex("^the control group .*" + group.name() +
                              " has [89][0-9]\\.[0-9] MiB of 100\\.0 MiB used \\([89][0-9.]*%\\) "
                              "\\(--at-memory 80%\\)$"));
    const json& memory = report.at("memory").at("group");
    EXPECT_EQ(memory.at("limit_bytes"), 100 << 20);
    EXPECT_GE(memory.at("current_bytes"), 80 << 20);
    EXPECT_THAT(memory.at("path").get<std::string>(), HasSubstr(group.name()));
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(fixture.quit(), 0);
}

// It is the group's: the kernel kills what passes its limit, and the report says so.
TEST_P(AtGroupMemory, TheEndByTheKernelIsNamed) {
    const LimitedGroup group(GetParam(), 60 << 20);
    Fixture fixture("grower");
    if (!group.takes(fixture.pid())) {
        GTEST_SKIP() << "no " << GetParam().type << " with memory limits that we may use here";
    }
    std::ofstream(fmt::format("/proc/{}/oom_score_adj", fixture.pid())) << 1000;
    Memleax memleax({"-q", "-o", file("end.txt"), pid_of(fixture)});
    memleax.wait_until_watching();
    fixture.process().send("grow 200");
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(test::read_file(file("end.txt")),
                HasSubstr("== Memory: the group was out of memory: the kernel has killed a process "
                          "of it since the attach"));
    fixture.process().wait_for_end();
}

INSTANTIATE_TEST_SUITE_P(Versions, AtGroupMemory, ::testing::ValuesIn(kMemoryLimits),
                         [](const auto& instance) { return std::string(instance.param.name); });

} // namespace
} // namespace memleax::testing
