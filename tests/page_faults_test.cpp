// SPDX-License-Identifier: GPL-3.0-or-later
// memleax --track faults on programs that know how many pages they touch, and from where.
#include <filesystem>
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

using Faults = std::map<std::string, std::int64_t>;

/// The fixture's function that touched; "": none of those that count.
std::string touching_function(const nlohmann::json& stack) {
    for (const auto& frame : stack.at("frames")) {
        std::string function = frame.value("function", "");
        if (function.starts_with("touch_") || function == "write_ten") {
            return function;
        }
    }
    return "";
}

/// Is it the memory that the function means to touch? Its code, and that of what it calls, may be
/// touched for the first time as well, and so may its stack.
bool is_meant(const std::string& function, const nlohmann::json& touched) {
    const std::string what = touched.at("what");
    return touched.contains("file") ? what == "/memfd:touched"
                                    : (what == "stack") == (function == "touch_stack");
}

/// By the function that touched.
Faults by_function(const nlohmann::json& page_faults) {
    Faults result;
    for (const auto& stack : page_faults.at("callstacks")) {
        const std::string function = touching_function(stack);
        std::int64_t sum = 0;
        for (const auto& touched : stack.at("touched")) {
            const auto count = touched.at("count").get<std::int64_t>();
            result[is_meant(function, touched) ? function : ""] += count;
            sum += count;
        }
        EXPECT_EQ(stack.at("minor"), sum) << stack;
        EXPECT_EQ(stack.at("major"), 0) << stack;
    }
    return result;
}

/// "touch_file" of "file" /memfd:touched, ...: what these functions have touched.
std::map<std::string, std::string> touched_by(const nlohmann::json& page_faults) {
    std::map<std::string, std::string> result;
    for (const auto& stack : page_faults.at("callstacks")) {
        const std::string name = touching_function(stack);
        for (const auto& touched : stack.at("touched")) {
            if (!is_meant(name, touched)) {
                continue;
            }
            result[name] += fmt::format("{} {}", touched.at("count").get<int>(),
                                        touched.at("what").get<std::string>());
            if (touched.contains("file")) {
                result[name] += fmt::format(" {}-{}", touched.at("begin").get<std::string>(),
                                            touched.at("end").get<std::string>());
            }
        }
    }
    return result;
}

/// Everything that the fixture has touched, and nothing else by these functions.
void expect_touched(const nlohmann::json& report, const Leaks& truth) {
    const auto& page_faults = report.at("page_faults");
    const Faults faults = by_function(page_faults);
    for (const auto& [function, touched] : truth) {
        const auto found = faults.find(function);
        EXPECT_EQ(found != faults.end() ? found->second : 0, touched.blocks)
            << function << page_faults;
    }
    std::int64_t sum = 0;
    for (const auto& [function, count] : faults) {
        EXPECT_TRUE(function.empty() || truth.contains(function)) << function;
        sum += count;
    }
    EXPECT_EQ(page_faults.at("lost"), 0);
    EXPECT_EQ(page_faults.at("minor"), sum);
}

/// What a fixture answers, and the report on what it touched meanwhile.
std::pair<FixtureAnswer, nlohmann::json> watch_round(Fixture& fixture, const std::string& kinds) {
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-F", "json", "-e", "1000", "--track", kinds, std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    return {std::move(answer), result.json()};
}

TEST(PageFaults, EachFunctionsAreExact) {
    Fixture fixture("page_toucher");
    const auto [answer, report] = watch_round(fixture, "faults");
    expect_touched(report, answer.truth);
    EXPECT_EQ(report.at("page_faults").at("memleax"), 0);
    EXPECT_EQ(report.at("page_faults").at("kernel"), true);
    EXPECT_EQ(report.at("session").at("events").at("alloc"), 0); // nobody stops at malloc
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PageFaults, ThoseThatWaitForADiskAreExact) {
    Fixture fixture("page_toucher", {"disk"});
    const auto [answer, report] = watch_round(fixture, "faults");
    EXPECT_EQ(fixture.quit(), 0);
    const auto touched_pages = answer.truth.find("touch_disk");
    if (touched_pages == answer.truth.end() ||
        answer.counts.at("major") != touched_pages->second.blocks) {
        GTEST_SKIP() << "there is no file in /var/tmp whose pages all leave the memory";
    }
    const auto& page_faults = report.at("page_faults");
    std::int64_t major = 0;
    std::int64_t of_file = 0;
    for (const auto& stack : page_faults.at("callstacks")) {
        if (touching_function(stack) != "touch_disk") {
            continue;
        }
        major += stack.at("major").get<std::int64_t>();
        for (const auto& touched : stack.at("touched")) {
            const auto what = touched.at("what").get<std::string>();
            of_file += what.find("/page_toucher.") != std::string::npos
                           ? touched.at("count").get<std::int64_t>()
                           : 0;
        }
    }
    EXPECT_EQ(major, touched_pages->second.blocks);
    EXPECT_EQ(of_file, touched_pages->second.blocks);
    EXPECT_GE(page_faults.at("major"), major); // the program's own code may have left as well
    EXPECT_EQ(page_faults.at("lost"), 0);
}

TEST(PageFaults, WhatWasTouchedIsNamed) {
    Fixture fixture("page_toucher");
    const auto [answer, report] = watch_round(fixture, "faults");
    const auto page = static_cast<unsigned>(sysconf(_SC_PAGESIZE));
    const auto touched = touched_by(report.at("page_faults"));
    EXPECT_EQ(touched.at("touch_anonymous"), "300 anonymous");
    EXPECT_EQ(touched.at("touch_break"), "200 heap");
    EXPECT_EQ(touched.at("touch_file"),
              fmt::format("10 /memfd:touched 0x{:x}-0x{:x}", 3 * page, 13 * page));
    EXPECT_EQ(touched.at("touch_stack"), "40 stack");
}

TEST(PageFaults, AsManyBesideTheHeap) {
    Fixture fixture("page_toucher");
    const auto [answer, report] = watch_round(fixture, "heap,mmap,brk,faults");
    expect_touched(report, answer.truth);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PageFaults, OfThreadsThatAreThereAndThatAreBorn) {
    Fixture fixture("page_toucher", {"threads"});
    const auto [answer, report] = watch_round(fixture, "faults");
    expect_touched(report, answer.truth);
    EXPECT_EQ(answer.truth.at("touch_anonymous").blocks, 6 * 300);
    EXPECT_EQ(fixture.quit(), 0);
}

// The kernel joins both mappings, and tells of them as one.
TEST(PageFaults, WhatIsMappedBesideAStackIsNotTheStack) {
    Fixture fixture("page_toucher", {"beside"});
    const auto [answer, report] = watch_round(fixture, "faults");
    expect_touched(report, answer.truth);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PageFaults, NoneIsLostAtTenThousandASecond) {
    Fixture fixture("page_toucher", {"rate", "10000"});
    const auto [answer, report] = watch_round(fixture, "faults");
    expect_touched(report, answer.truth);
    EXPECT_EQ(answer.truth.at("write_ten").blocks, 20000);
}

// Whether or not the buffers were large enough.
void expect_exact_total(const nlohmann::json& report, const Leaks& truth) {
    const auto& page_faults = report.at("page_faults");
    const Faults faults = by_function(page_faults);
    std::int64_t sum = 0;
    for (const auto& [function, count] : faults) {
        sum += count;
    }
    const auto lost = page_faults.at("lost").get<std::int64_t>();
    EXPECT_EQ(page_faults.at("minor"), sum + lost);
    const std::int64_t touched = truth.at("touch_many").blocks;
    const auto found = faults.find("touch_many");
    const std::int64_t known = found != faults.end() ? found->second : 0;
    EXPECT_LE(known, touched);
    EXPECT_GE(known + lost, touched);
}

TEST(PageFaults, WhatIsLostIsToldAndInTheTotal) {
    Fixture fixture("page_toucher", {"burst"});
    const auto [answer, report] = watch_round(fixture, "faults");
    expect_exact_total(report, answer.truth);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PageFaults, OfAProgramFromItsFirstInstruction) {
    const std::string path = fmt::format("/tmp/memleax-faults-{}.json", getpid());
    Memleax memleax({"-F", "json", "-e", "1000", "-o", path, "--track", "faults", "--",
                     fixture_path("page_toucher")});
    memleax.wait_until_watching();
    const FixtureAnswer answer = memleax.let_fixture_go();
    const auto result = memleax.quit_fixture_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    std::ifstream file(path);
    const nlohmann::json report = nlohmann::json::parse(file);
    std::filesystem::remove(path);
    expect_touched(report, answer.truth);
    // The dynamic linker's.
    EXPECT_GT(by_function(report.at("page_faults")).at(""), 10);
}

TEST(PageFaults, GoOnInTheNextProgram) {
    Fixture fixture("page_toucher", {"exec"});
    Memleax memleax(
        {"-F", "json", "-e", "1000", "--track", "faults", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    expect_touched(result.json(), answer.truth);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(PageFaults, AChildsAreNotItsParents) {
    Fixture fixture("page_toucher", {"fork"});
    auto [answer, report] = watch_round(fixture, "faults");
    answer.truth.erase("touch_in_child");
    expect_touched(report, answer.truth);
}

TEST(PageFaults, AChildHasItsOwnAccount) {
    Fixture fixture("page_toucher", {"fork"});
    Memleax memleax({"-F", "json", "-e", "1000", "--track", "faults", "--follow-forks",
                     std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto report = memleax.interrupt_and_finish().json();
    expect_touched(report, answer.truth);
    for (const auto& stack : report.at("page_faults").at("callstacks")) {
        const std::string function = touching_function(stack);
        if (answer.truth.contains(function)) {
            EXPECT_EQ(stack.at("process"), function == "touch_in_child" ? 2 : 1) << stack;
        }
    }
    std::int64_t sum = 0;
    for (const auto& process : report.at("processes")) {
        sum += process.at("page_faults").at("minor").get<std::int64_t>();
    }
    EXPECT_EQ(report.at("page_faults").at("minor"), sum);
}

/// As somebody who may watch processes of his own only. The report, or what memleax says instead.
class Unprivileged {
  public:
    explicit Unprivileged(const std::vector<std::string>& mode) {
        std::vector<std::string> words = mode;
        words.insert(words.begin(), fixture_path("page_toucher"));
        Fixture fixture(unprivileged({words}));
        auto command = memleax_command();
        command.insert(command.end(), {"-F", "json", "-e", "1000", "--track", "faults",
                                       std::to_string(fixture.pid())});
        Memleax memleax(unprivileged({command}));
        std::ifstream("/proc/sys/kernel/perf_event_paranoid") >> paranoid;
        if (paranoid > 2) {
            const auto result = memleax.finish();
            EXPECT_NE(result.status, 0);
            EXPECT_THAT(result.errors, HasSubstr("kernel.perf_event_paranoid to 2 or less"));
            return;
        }
        memleax.wait_until_watching();
        answer = fixture.go();
        report = memleax.interrupt_and_finish().json();
    }
    int paranoid = 3;
    FixtureAnswer answer;
    nlohmann::json report; ///< null: that is not allowed
};

TEST(PageFaults, WithoutPrivileges) {
    const Unprivileged run({"rate", "1000"}); // the buffers are small
    if (!run.report.is_null()) {
        expect_touched(run.report, run.answer.truth);
    }
}

TEST(PageFaults, WithoutPrivilegesWhatIsLostIsTold) {
    const Unprivileged run({"burst"});
    if (!run.report.is_null()) {
        expect_exact_total(run.report, run.answer.truth);
        EXPECT_GT(run.report.at("page_faults").at("lost"), 0) << "more than any buffer holds";
    }
}

// Those that the kernel takes within a system call are not ours to see then.
TEST(PageFaults, WithoutPrivilegesThoseOfTheProgramsOwnCode) {
    const Unprivileged run({});
    if (run.paranoid == 2) {
        const auto& faults = run.report.at("page_faults");
        EXPECT_EQ(faults.at("kernel"), false);
        EXPECT_FALSE(by_function(faults).contains("touch_by_read"));
        const std::int64_t own_code = 300 + 200 + 10 + 40;
        EXPECT_GE(faults.at("minor"), own_code); // by the kernel's counters if samples were lost
    }
}

TEST(PageFaults, TextTellsThem) {
    Fixture fixture("page_toucher");
    Memleax memleax({"-e", "1000", "--track", "faults", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const std::string text = memleax.interrupt_and_finish().output;
    EXPECT_THAT(text, ContainsRegex("== Page faults: [0-9]+ minor, 0 major\\.\n"));
    EXPECT_THAT(text, ContainsRegex("Page faults: 300 minor, 0 major: 300 anonymous\n"
                                    ".*touch_anonymous"));
    EXPECT_THAT(text, ::testing::EndsWith("== No allocation was seen.\n"));
    EXPECT_THAT(text, ::testing::Not(HasSubstr("No expired")));
}

} // namespace
} // namespace memleax::testing
