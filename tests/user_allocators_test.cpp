// SPDX-License-Identifier: GPL-3.0-or-later
// Allocators and resources that the user names (--alloc, --free, --realloc, --resource), and the
// files of such lines that are installed (--allocators).
#include <fstream>

#include <dlfcn.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "elf_support.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

const std::vector<std::string> kPool{
    "--alloc",    "fixture_pool_get:size=3,count=2",
    "--alloc",    "fixture_pool_make:size=2,out=1",
    "--alloc",    "fixture_pool_wrapped:size=1",
    "--realloc",  "fixture_pool_grow:ptr=1,size=2",
    "--free",     "fixture_pool_put:ptr=2",
    "--free",     "fixture_pool_put_all:ptr=2,next=1",
    "--resource", "fixture_pool_open,fixture_pool_close:int",
    "--resource", "fopen,fclose",
    "--resource", "open,close:int",
};

/// fopen64 and __open64 are fopen and open by other names.
std::string plain(std::string name) {
    name = name.substr(0, name.find('('));
    name = name.substr(std::min(name.find_first_not_of('_'), name.size()));
    return name.ends_with("64") ? name.substr(0, name.size() - 2) : name;
}

/// What is live, by the function that was called.
Leaks live_by_call(const nlohmann::json& report) {
    Leaks live;
    for (const auto& stack : report.at("callstacks")) {
        Leak& leak = live[plain(stack.at("frames").at(0).value("function", "(no name)"))];
        leak.blocks += stack.at("live_blocks").get<std::int64_t>();
        leak.bytes += stack.at("live_bytes").get<std::int64_t>();
    }
    return live;
}

Leaks expected(const FixtureAnswer& answer) {
    Leaks result;
    for (const auto& [function, leak] : answer.truth) {
        result[plain(function)] = leak;
    }
    return result;
}

/// Of two rounds, as the second one meets addresses that the first has used.
nlohmann::json watch_two_rounds(Fixture& fixture, std::vector<std::string> options,
                                FixtureAnswer* answer) {
    const TargetSnapshot before = take_snapshot(fixture.pid());
    options.insert(options.begin(), {"-F", "json", "-e", "1000"});
    options.push_back(std::to_string(fixture.pid()));
    Memleax memleax(options);
    memleax.wait_until_watching();
    fixture.go();
    *answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, Not(HasSubstr("so far")));
    EXPECT_THAT(answer->failures, IsEmpty());
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(result.json().at("session").at("events").at("double_free"), 0);
    return result.json();
}

/// The calls that the truth names: exactly those. Others are the library's own.
void expect_calls(const nlohmann::json& report, const FixtureAnswer& answer) {
    record_compared("counts");
    record_compared("frames");
    const Leaks truth = expected(answer);
    const Leaks live = live_by_call(report);
    for (const auto& [call, leak] : truth) {
        const auto found = live.find(call);
        EXPECT_EQ(found == live.end() ? Leak{} : found->second, leak) << call;
    }
}

TEST(UserAllocators, EachFunctionsBlocksAreCounted) {
    Fixture fixture("user_allocators");
    FixtureAnswer answer;
    const auto report = watch_two_rounds(fixture, kPool, &answer);
    expect_calls(report, answer);
    EXPECT_EQ(report.at("session").at("events").at("failed_alloc"),
              answer.counts.at("failed_alloc"));
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(UserAllocators, AFileSaysTheSame) {
    const test::TemporaryFolder folder;
    std::ofstream file(folder.file("mine"));
    file << "# a comment\n\n";
    for (std::size_t i = 0; i < kPool.size(); i += 2) {
        file << "  " << kPool[i].substr(2) << " \t" << kPool[i + 1] << "  # and another\r\n";
    }
    file.close();
    Fixture fixture("user_allocators");
    FixtureAnswer answer;
    expect_calls(watch_two_rounds(fixture, {"--allocators", folder.file("mine")}, &answer), answer);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(UserAllocators, WhatIsNowhereIsSaid) {
    Fixture fixture("threads16");
    Memleax memleax(
        {"--alloc", "no_such_function:size=1", "-t", "0.1", "-q", std::to_string(fixture.pid())});
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr("--alloc no_such_function:size=1: no module of process"));
    EXPECT_EQ(fixture.quit(), 0);
}

struct Ready {
    const char* file;
    const char* library;
};
void PrintTo(const Ready& ready, std::ostream* out) {
    *out << ready.file;
}

class ReadyAllocators : public ::testing::TestWithParam<Ready> {};

TEST_P(ReadyAllocators, CountWhatTheLibraryGives) {
    if (dlopen(GetParam().library, RTLD_NOW) == nullptr) {
        GTEST_SKIP() << GetParam().library << " is not installed";
    }
    Fixture fixture("ready_allocators", {GetParam().file});
    FixtureAnswer answer;
    auto report = watch_two_rounds(fixture, {"--allocators", GetParam().file}, &answer);
    expect_calls(report, answer);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Libraries, ReadyAllocators,
                         ::testing::Values(Ready{"glib", "libglib-2.0.so.0"},
                                           Ready{"apr", "libapr-1.so.0"},
                                           Ready{"sqlite", "libsqlite3.so.0"},
                                           Ready{"openssl", "libcrypto.so.3"}),
                         [](const auto& instance) { return std::string(instance.param.file); });

/// Does the dynamic linker find it?
bool is_installed(const std::string& library) {
    ChildProcess child({"/bin/sh", "-c", "LD_PRELOAD=" + library + " true 2>&1"});
    child.wait_for_end();
    return child.output().empty();
}

class PreloadedAllocators : public ::testing::TestWithParam<Ready> {};

// The names that they have besides malloc's.
TEST_P(PreloadedAllocators, AreWatchedByAllTheirNames) {
    // Not opened in here: an allocator wants to be there from the start.
    if (!is_installed(GetParam().library)) {
        GTEST_SKIP() << GetParam().library << " is not installed";
    }
    Fixture fixture("ready_allocators", {GetParam().file}, {{"LD_PRELOAD", GetParam().library}});
    FixtureAnswer answer;
    expect_calls(watch_two_rounds(fixture, {}, &answer), answer);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Libraries, PreloadedAllocators,
                         ::testing::Values(Ready{"jemalloc", "libjemalloc.so.2"},
                                           Ready{"mimalloc", "libmimalloc.so.2"}),
                         [](const auto& instance) { return std::string(instance.param.file); });

} // namespace
} // namespace memleax::testing
