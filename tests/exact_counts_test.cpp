// SPDX-License-Identifier: GPL-3.0-or-later
// memleax attached to programs that know what they leak: blocks and bytes of each function are
// compared exactly, nothing else may be reported, and the program is left as it was found.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;

struct Case {
    std::string fixture;
    std::vector<std::string> arguments{};
    std::string preload{}; ///< a library of fixtures/, or of the system
    std::string name() const { return row_name(fixture, arguments, preload); }
};
void PrintTo(const Case& test_case, std::ostream* out) {
    *out << test_case.name();
}

class ExactCounts : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        if (!is_built(GetParam().fixture)) {
            GTEST_SKIP() << GetParam().fixture << " could not be built here";
        }
    }
    static Environment environment() {
        const std::string& preload = GetParam().preload;
        if (preload.empty()) {
            return {};
        }
        const bool is_ours = preload.find(".so") == std::string::npos;
        return {{"LD_PRELOAD", is_ours ? fixture_path("lib" + preload + ".so") : preload}};
    }
    /// Another round, with memleax attached from before its start to after its end.
    static void watch_round(Fixture& fixture) {
        const TargetSnapshot before = take_snapshot(fixture.pid());
        Memleax memleax({"-F", "json", "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        const TargetSnapshot after = take_snapshot(fixture.pid());

        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(differences(before, after, Meanwhile::worked), IsEmpty());
        const auto report = result.json();
        EXPECT_EQ(report.at("session").at("end_reason"), "user");
        expect_truth(report, answer);
    }
};

TEST_P(ExactCounts, EachFunctionsLeaksAndNothingElse) {
    Fixture fixture(GetParam().fixture, GetParam().arguments, environment());
    watch_round(fixture);
    EXPECT_EQ(fixture.quit(), 0) << fixture.process().errors();
}

std::vector<Case> cases() {
    std::vector<Case> result;
    for (const char* name : {"alloc_all", "alloc_all_cxx"}) {
        for (const char* level : {"O0", "O2"}) {
            for (const char* frame : {"fp", "nofp"}) {
                for (const char* pie : {"pie", "nopie"}) {
                    result.push_back({fmt::format("{}-{}-{}-{}", name, level, frame, pie)});
                }
            }
        }
        for (const char* preload : {"interposer", "interposer_tail"}) {
            result.push_back({fmt::format("{}-O2-nofp-pie", name), {}, preload});
        }
    }
    // glibc's malloc hooks, and the checks that they carry, are in a library of their own
    // since 2.34.
    result.push_back({"alloc_all-O2-nofp-pie", {}, "libc_malloc_debug.so.0"});
    if (is_built("libinterposer_guarded.so")) { // arm64
        result.push_back({"alloc_all-O2-nofp-pie", {}, "interposer_guarded"});
        for (const char* name : {"signed-alloc_all", "signed-signals", "signed-threads16",
                                 "signed-longjmp_exceptions"}) {
            result.push_back({name});
        }
    }
    result.push_back({"threads16", {"1000", "5"}});
    result.push_back({"threads16", {"64", "60"}});
    result.push_back({"dlopen_plugin", {"250"}});
    result.push_back({"split_stack"});
    result.push_back({"busy_handler"});
    result.push_back({"busy_handler", {"alternate"}});
    for (const char* name : {"alloc_all", "big_live", "cross_thread_free", "realloc_chains",
                             "recursion", "thread_churn", "threads16", "unknown_free"}) {
        result.push_back({std::string("musl-") + name});
    }
    for (const char* name :
         {"other_stacks", "realloc_chains", "cross_thread_free", "failed_alloc", "failed_new",
          "threads16", "recursion", "longjmp_exceptions", "thread_churn", "unknown_free",
          "dlopen_plugin", "forker", "signals", "big_live", "handed_over"}) {
        result.push_back({name});
    }
    result.push_back({"own_allocator", {"libown_allocator_plugin.so", "unload"}});
    return result;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, ExactCounts, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name(); });

// A block's size tells how many frames of the two functions must be in its stack.
void expect_every_frame(const std::string& name) {
    Fixture fixture(name);
    Memleax memleax({"-F", "json", "-e", "1000", "-l", "256", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_EQ(report.at("callstacks").size(), 200U);
    for (const auto& stack : report.at("callstacks")) {
        const std::int64_t size = stack.at("live_bytes").get<std::int64_t>() /
                                  stack.at("live_blocks").get<std::int64_t>();
        std::int64_t levels = 0;
        for (const auto& frame : stack.at("frames")) {
            const std::string function = frame.value("function", "");
            levels += function.starts_with("odd_level") || function.starts_with("even_level");
        }
        EXPECT_EQ(levels, size - 1000);
    }
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Recursion, EveryFrameIsThere) {
    expect_every_frame("recursion");
}

TEST(Recursion, EveryFrameWithSignedReturnAddressesIsThere) {
    if (!is_built("signed-recursion")) {
        GTEST_SKIP() << "not on this CPU";
    }
    expect_every_frame("signed-recursion");
    expect_every_frame("signed-b-recursion");
}

} // namespace
} // namespace memleax::testing
