// SPDX-License-Identifier: GPL-3.0-or-later
// The command line: every option. Wrong uses are in usage_error_test.cpp.
#include "memleax/cli/options.hpp"

#include <limits>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "memleax/report/report_writer.hpp"

namespace memleax {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using Words = std::vector<const char*>;

std::variant<Options, EarlyExit> parse(Words words) {
    words.insert(words.begin(), "memleax");
    words.push_back(nullptr); // as main gets it
    return parse_options(static_cast<int>(words.size() - 1), words.data());
}

Options accepted(const Words& words) {
    auto parsed = parse(words);
    if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
        ADD_FAILURE() << exit->text;
        return {};
    }
    return std::get<Options>(parsed);
}

TEST(OptionsTest, CheckNeedsTheOperatorsOfTheRuntime) {
    EXPECT_FALSE(accepted({"4711"}).check);
    EXPECT_FALSE(accepted({"4711"}).allocators->takes_runtime_operators());
    EXPECT_TRUE(accepted({"--check", "4711"}).check);
    EXPECT_TRUE(accepted({"--check", "4711"}).allocators->takes_runtime_operators());
}

TEST(OptionsTest, Defaults) {
    const Options options = accepted({"4711"});
    EXPECT_THAT(options.pids, ElementsAre(4711));
    EXPECT_TRUE(options.command.empty());
    EXPECT_EQ(options.expire_s, 10);
    EXPECT_EQ(options.time_s, std::nullopt);
    EXPECT_EQ(options.backtrace_limit, 50U);
    EXPECT_EQ(options.memory_block_max, 0U) << "no limit";
    EXPECT_EQ(options.call_stack_max, 0U);
    EXPECT_EQ(options.debug_info, "");
    EXPECT_TRUE(options.debug_folders.empty());
    EXPECT_EQ(options.ns_pid, std::nullopt);
    EXPECT_EQ(options.output, "");
    EXPECT_EQ(options.format->name, "text");
    EXPECT_FALSE(options.quiet);
    EXPECT_FALSE(options.follow_forks);
    EXPECT_EQ(options.error_exitcode, 0);
    EXPECT_EQ(options.log_level, LogLevel::info);
}

TEST(OptionsTest, NamesAndContainers) {
    const Options options =
        accepted({"--debug-dir", "a", "--debug-dir", "/b", "--ns-pid", "17", "4711"});
    EXPECT_THAT(options.debug_folders, ElementsAre("a", "/b"));
    EXPECT_EQ(options.ns_pid, 17);
    EXPECT_THAT(options.pids, ElementsAre(4711));
}

TEST(OptionsTest, WithATimeBlocksExpireWithinIt) {
    EXPECT_EQ(accepted({"-t", "3", "1"}).expire_s, 1);
    EXPECT_EQ(accepted({"-t", "30", "1"}).expire_s, 10);
    EXPECT_EQ(accepted({"-t", "3600", "1"}).expire_s, 10);
    EXPECT_EQ(accepted({"-t", "3", "-e", "2.5", "1"}).expire_s, 2.5);
}

TEST(OptionsTest, ShortNames) {
    const Options options = accepted({"-e", "2.5", "-t", "60", "-l", "256", "-m", "0", "-c", "7",
                                      "-d", "a.debug", "-o", "out", "-F", "json", "-q", "-f", "1"});
    EXPECT_THAT(options.pids, ElementsAre(1));
    EXPECT_EQ(options.expire_s, 2.5);
    EXPECT_EQ(options.time_s, 60);
    EXPECT_EQ(options.backtrace_limit, 256U);
    EXPECT_EQ(options.memory_block_max, 0U);
    EXPECT_EQ(options.call_stack_max, 7U);
    EXPECT_EQ(options.debug_info, "a.debug");
    EXPECT_EQ(options.output, "out");
    EXPECT_EQ(options.format->name, "json");
    EXPECT_TRUE(options.quiet);
    EXPECT_TRUE(options.follow_forks);
}

TEST(OptionsTest, LongNames) {
    const Options options =
        accepted({"--expire=0.001", "--time", "0.5", "--backtrace-limit=1",
                  "--memory-block-max=18446744073709551615", "--call-stack-max", "0",
                  "--debug-info=x y", "--output", "-", "--format=text", "--quiet", "--follow-forks",
                  "--error-exitcode", "255", "--log=debug", "2147483647"});
    EXPECT_THAT(options.pids, ElementsAre(2147483647));
    EXPECT_EQ(options.expire_s, 0.001);
    EXPECT_EQ(options.time_s, 0.5);
    EXPECT_EQ(options.backtrace_limit, 1U);
    EXPECT_EQ(options.memory_block_max, std::numeric_limits<std::uint64_t>::max());
    EXPECT_EQ(options.call_stack_max, 0U);
    EXPECT_EQ(options.debug_info, "x y");
    EXPECT_EQ(options.output, "-");
    EXPECT_EQ(options.format->name, "text");
    EXPECT_TRUE(options.quiet);
    EXPECT_TRUE(options.follow_forks);
    EXPECT_EQ(options.error_exitcode, 255);
    EXPECT_EQ(options.log_level, LogLevel::debug);
}

TEST(OptionsTest, FullNames) {
    EXPECT_EQ(accepted({"1"}).name_style, NameStyle::folded);
    EXPECT_EQ(accepted({"--full-names", "1"}).name_style, NameStyle::whole);
}

TEST(OptionsTest, Skip) {
    EXPECT_THAT(accepted({"1"}).skip, testing::IsEmpty());
    EXPECT_THAT(accepted({"--skip", "pool_*", "--skip=libpool.so.*", "1"}).skip,
                ElementsAre("pool_*", "libpool.so.*"));
}

TEST(OptionsTest, AnotherUnwinderChoosesItsEngine) {
    EXPECT_EQ(accepted({"1"}).unwinder, UnwinderChoice::own);
    EXPECT_EQ(accepted({"1"}).engine, EngineChoice::automatic);
    const Options options = accepted({"--unwinder", "libunwind", "1"});
    EXPECT_EQ(options.unwinder, UnwinderChoice::libunwind);
    EXPECT_EQ(options.engine, EngineChoice::int3);
}

TEST(OptionsTest, ErrorsFor) {
    EXPECT_EQ(accepted({"--error-exitcode", "9", "1"}).errors_for, ErrorsFor::suspect);
    const std::pair<const char*, ErrorsFor> kinds[] = {{"leaking", ErrorsFor::leaking},
                                                       {"suspect", ErrorsFor::suspect},
                                                       {"expired", ErrorsFor::expired}};
    for (const auto& [name, kind] : kinds) {
        EXPECT_EQ(accepted({"--errors-for", name, "--error-exitcode", "9", "1"}).errors_for, kind);
    }
}

TEST(OptionsTest, LogLevels) {
    EXPECT_EQ(accepted({"--log", "error", "1"}).log_level, LogLevel::error);
    EXPECT_EQ(accepted({"--log", "warning", "1"}).log_level, LogLevel::warning);
    EXPECT_EQ(accepted({"--log", "info", "1"}).log_level, LogLevel::info);
}

TEST(OptionsTest, AnyOrderAndTheLastCounts) {
    for (const Words& words : {Words{"123", "-t", "5"}, Words{"-t", "5", "123"},
                               Words{"-qt5", "123"}, Words{"-t", "9", "123", "-t", "5"}}) {
        const Options options = accepted(words);
        EXPECT_THAT(options.pids, ElementsAre(123));
        EXPECT_EQ(options.time_s, 5);
    }
}

TEST(OptionsTest, NumbersAreDecimal) {
    EXPECT_EQ(accepted({"-m", "010", "1"}).memory_block_max, 10U);
    EXPECT_EQ(accepted({"-e", ".5", "1"}).expire_s, 0.5);
    EXPECT_EQ(accepted({"-e", "1e3", "1"}).expire_s, 1000);
}

TEST(OptionsTest, CommandIsUntouched) {
    const Options options =
        accepted({"-e", "1", "--", "ls", "-l", "--help", "", "--", "-e", "0", "123"});
    EXPECT_THAT(options.pids, testing::IsEmpty());
    EXPECT_EQ(options.expire_s, 1);
    EXPECT_THAT(options.command, ElementsAre("ls", "-l", "--help", "", "--", "-e", "0", "123"));
}

TEST(OptionsTest, TimesHaveUnits) {
    const std::pair<const char*, double> cases[] = {
        {"90", 90},   {"0.5", 0.5},  {"250ms", 0.25}, {"30s", 30},    {"1.5m", 90}, {"5m", 300},
        {"2h", 7200}, {"1d", 86400}, {"1e3", 1000},   {"1e3s", 1000}, {"007m", 420}};
    for (const auto& [text, seconds] : cases) {
        EXPECT_DOUBLE_EQ(accepted({"-e", text, "1"}).expire_s, seconds) << text;
        EXPECT_DOUBLE_EQ(accepted({"-t", text, "1"}).time_s.value_or(0), seconds) << text;
        EXPECT_DOUBLE_EQ(accepted({"--interval", text, "1"}).interval_s.value_or(0), seconds)
            << text;
    }
    const Options options = accepted({"--interval", "5m,3", "1"});
    EXPECT_EQ(options.interval_s, 300);
    EXPECT_EQ(options.interval_count, 3U);
}

TEST(OptionsTest, SeveralProcesses) {
    const Options options = accepted({"1", "-p", "2", "3", "--pid", "4", "--name", "nginx",
                                      "--name", "^php-fpm$", "--children"});
    EXPECT_THAT(options.pids, ElementsAre(1, 3, 2, 4));
    EXPECT_THAT(options.names, ElementsAre("nginx", "^php-fpm$"));
    EXPECT_TRUE(options.children);
    EXPECT_FALSE(accepted({"1"}).children);
    EXPECT_THAT(accepted({"--name", "nginx"}).pids, testing::IsEmpty());
}

TEST(OptionsTest, AtMemory) {
    const Options options = accepted({"--at-memory", "90%", "--at-memory=1.5G", "--at-memory",
                                      "800MiB", "--at-memory", "7kB", "--at-memory", "4096", "1"});
    ASSERT_EQ(options.at_memory.size(), 5U);
    EXPECT_EQ(options.at_memory[0].text, "90%");
    EXPECT_EQ(options.at_memory[0].share, 0.9);
    EXPECT_EQ(options.at_memory[1].share, std::nullopt);
    EXPECT_EQ(options.at_memory[1].rss_bytes, 3ULL << 29);
    EXPECT_EQ(options.at_memory[2].rss_bytes, 800ULL << 20);
    EXPECT_EQ(options.at_memory[3].rss_bytes, 7U << 10);
    EXPECT_EQ(options.at_memory[4].rss_bytes, 4096U);
    EXPECT_TRUE(accepted({"1"}).at_memory.empty());
}

TEST(OptionsTest, AtPressure) {
    const auto stall_of = [](const char* text) {
        const Options options = accepted({"--at-pressure", text, "1"});
        return options.at_pressure.value_or(PressureThreshold{}).stall;
    };
    EXPECT_EQ(stall_of("some"), (StallThreshold{false, 150'000, 2'000'000}));
    EXPECT_EQ(stall_of("full"), (StallThreshold{true, 150'000, 2'000'000}));
    EXPECT_EQ(stall_of("full:50ms"), (StallThreshold{true, 50'000, 2'000'000}));
    EXPECT_EQ(stall_of("some:0.3/10"), (StallThreshold{false, 300'000, 10'000'000}));
    EXPECT_EQ(accepted({"--at-pressure", "some:1s/1s", "--at-output", "x%p", "1"}).at_output,
              "x%p");
    EXPECT_EQ(accepted({"1"}).at_pressure.has_value(), false);
}

TEST(OptionsTest, HelpAndVersion) {
    for (const Words& words : {Words{"-h"}, Words{"--help"}, Words{"1", "-q", "-h"}}) {
        const auto parsed = parse(words);
        const auto& exit = std::get<EarlyExit>(parsed);
        EXPECT_EQ(exit.status, 0);
        EXPECT_THAT(exit.text, HasSubstr("Usage: memleax [OPTION]... PID...\n"
                                         "       memleax [OPTION]... -- COMMAND [ARG]...\n"));
        for (const char* name :
             {"-e,--expire TIME", "-t,--time TIME", "-l,--backtrace-limit N",
              "-m,--memory-block-max N", "-c,--call-stack-max N", "-d,--debug-info FILE",
              "-o,--output FILE", "-F,--format FORMAT", "-q,--quiet", "-f,--follow-forks",
              "--error-exitcode N", "--log LEVEL", "-v,--version", "-h,--help"}) {
            EXPECT_THAT(exit.text, HasSubstr(name));
        }
    }
    for (const Words& words : {Words{"-v"}, Words{"--version"}, Words{"1", "-v"}}) {
        const auto parsed = parse(words);
        const auto& exit = std::get<EarlyExit>(parsed);
        EXPECT_EQ(exit.status, 0);
        EXPECT_EQ(exit.text, "memleax " MEMLEAX_VERSION "\n");
    }
}

TEST(OptionsTest, HelpHasTheFormatsInColumns) {
    const auto parsed = parse({"-h"});
    const std::string& help = std::get<EarlyExit>(parsed).text;
    std::size_t column = 0;
    for (const ReportFormat& format : report_formats()) {
        const std::string name = fmt::format("\n{:31}{} ", "", format.name);
        const std::size_t begin = help.find(name);
        ASSERT_NE(begin, std::string::npos) << format.name << " runs into its text:\n" << help;
        const std::size_t text = help.find_first_not_of(' ', begin + name.size()) - begin;
        column = column == 0 ? text : column;
        EXPECT_EQ(text, column) << format.name;
        const std::string line = help.substr(begin + 1, help.find('\n', begin + 1) - begin - 1);
        EXPECT_LE(line.size(), 80U) << line;
    }
}

} // namespace
} // namespace memleax
