// SPDX-License-Identifier: GPL-3.0-or-later
// What the user wants to be put into the command (LD_PRELOAD) is not put into memleax, and gets
// into the command as the user gave it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "elf_support.hpp"
#include "leaks_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// memleax does not live with it.
const Environment& picky() {
    static const Environment environment{{"BEFORE", "1"},
                                         {"LD_PRELOAD", fixture_path("libpicky_malloc.so")},
                                         {"LD_AUDIT", ""},
                                         {"ZAFTER", "2"}};
    return environment;
}

TEST(Preloaded, AllocatorIsTheCommandsAndNotOurs) {
    const test::TemporaryFolder folder;
    Memleax memleax({"-F", "json", "-e", "1000", "-o", folder.file("report"), "--",
                     fixture_path("cross_thread_free")},
                    picky());
    memleax.wait_until_watching();
    EXPECT_THAT(test::read_file("/proc/" + std::to_string(memleax.process().pid()) + "/maps"),
                Not(HasSubstr("picky_malloc")));
    EXPECT_EQ(test::read_file("/proc/" + std::to_string(memleax.process().pid()) + "/comm"),
              "memleax\n");
    const FixtureAnswer answer = memleax.let_fixture_go();
    const auto result = memleax.quit_fixture_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    const auto report = nlohmann::json::parse(test::read_file(folder.file("report")));
    expect_truth(report, answer, WatchedFrom::start);
    EXPECT_THAT(report.dump(), HasSubstr("libpicky_malloc.so"));
}

TEST(Preloaded, EnvironmentComesToTheCommandAsItWas) {
    ChildProcess plain({"/usr/bin/env", "-0"}, picky());
    ASSERT_EQ(plain.wait_for_end(), 0);
    const std::string& expected = plain.output();
    ASSERT_THAT(expected, HasSubstr("LD_PRELOAD="));
    const test::TemporaryFolder folder;
    Memleax memleax({"-q", "-o", folder.file("report"), "--", "/usr/bin/env", "-0"}, picky());
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.output, expected);
}

TEST(Preloaded, EnvironmentComesToTheShellAsWell) {
    Fixture fixture("expiring");
    Memleax memleax({"-q", "-t", "0.01", "-x", "shell echo \"[$LD_PRELOAD]\"; env",
                     std::to_string(fixture.pid())},
                    picky());
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("[" + fixture_path("libpicky_malloc.so") + "]\n"));
    EXPECT_THAT(result.output, Not(HasSubstr("MEMLEAX_ASIDE_")));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
