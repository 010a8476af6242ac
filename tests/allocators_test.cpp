// SPDX-License-Identifier: GPL-3.0-or-later
// The same multi-threaded programs with every allocator, preloaded, linked, and linked statically:
// each function's leaks are counted exactly, each call once, and the program is left as it was
// found.

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::IsEmpty;
using ::testing::StartsWith;

struct Case {
    std::string fixture;
    std::vector<std::string> arguments{};
    std::string preload{};    ///< a library of the system, with its path
    bool has_own_new = false; ///< the allocator implements operator new
    std::vector<std::string> options{};
    std::string name() const { return row_name(fixture, arguments, preload); }
};
void PrintTo(const Case& test_case, std::ostream* out) {
    *out << test_case.name();
}

class Allocators : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        if (!is_built(GetParam().fixture)) {
            GTEST_SKIP() << GetParam().fixture << " could not be built here";
        }
    }
    static nlohmann::json watch_round(Fixture& fixture) {
        const TargetSnapshot before = take_snapshot(fixture.pid());
        std::vector<std::string> words{"-F", "json", "-e", "1000"};
        words.insert(words.end(), GetParam().options.begin(), GetParam().options.end());
        words.push_back(std::to_string(fixture.pid()));
        Memleax memleax(words);
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked),
                    IsEmpty());
        auto report = result.json();
        expect_truth(report, answer);
        return report;
    }
};

TEST_P(Allocators, EachCallIsCountedOnce) {
    const std::string& preload = GetParam().preload;
    Fixture fixture(GetParam().fixture, GetParam().arguments,
                    preload.empty() ? Environment{} : Environment{{"LD_PRELOAD", preload}});
    const nlohmann::json report = watch_round(fixture);
    // What the allocator frees for itself is nothing of the program's.
    EXPECT_EQ(report.at("session").at("events").at("unknown_free"), 0);
    if (GetParam().has_own_new) {
        for (const auto& stack : report.at("callstacks")) {
            EXPECT_THAT(stack.at("frames").at(1).value("function", ""), StartsWith("by_")) << stack;
        }
    }
    EXPECT_EQ(fixture.quit(), 0) << fixture.process().errors();
}

std::vector<Case> cases() {
    std::vector<Case> result;
    const auto add_both = [&](const std::string& suffix, const std::string& preload,
                              bool has_own_new, bool can_fail = true) {
        result.push_back({.fixture = "threads16" + suffix, .preload = preload});
        result.push_back(
            {.fixture = "cxx_operators" + suffix,
             .arguments = can_fail ? std::vector<std::string>{"fails"} : std::vector<std::string>{},
             .preload = preload,
             .has_own_new = has_own_new});
    };
    for (const char* suffix : {"", "-static", "-static-pie"}) {
        add_both(suffix, "", false);
    }
    result.push_back({.fixture = "threads16-static-stripped"});
    for (const char* name : {"musl-threads16", "musl-dynamic-threads16"}) {
        result.push_back({.fixture = name});
    }
    struct Library {
        const char* name;
        const char* file;
        bool new_can_fail; // mimalloc's, which is C, cannot throw: it aborts
    };
    static constexpr Library kLibraries[] = {{"jemalloc", "libjemalloc.so.2", true},
                                             {"tcmalloc", "libtcmalloc.so.4", true},
                                             {"tcmalloc_minimal", "libtcmalloc_minimal.so.4", true},
                                             {"mimalloc", "libmimalloc.so.2", false}};
    for (const Library& library : kLibraries) {
        const std::string linked = std::string("-") + library.name;
        add_both(linked, "", true, library.new_can_fail);
        add_both(linked + "-a", "", true, library.new_can_fail);
        if (is_built("threads16" + linked)) {
            add_both("", library.file, true, library.new_can_fail);
        }
    }
    // Two allocators in one process; one of them in a plugin, whose functions are not exported.
    // The last one's names are in its debug file only.
    for (const char* plugin :
         {"libhidden_plugin.so", "libhidden_je_plugin.so", "libstripped_plugin.so"}) {
        result.push_back({.fixture = "own_allocator", .arguments = {plugin, "unload"}});
    }
    result.push_back({.fixture = "own_allocator",
                      .arguments = {"libhidden_odd_plugin.so", "unload"},
                      .options = {"--prefix", "odd_"}});
    if (is_built("threads16-jemalloc")) {
        result.push_back({.fixture = "own_allocator",
                          .arguments = {"libown_allocator_plugin.so", "unload"},
                          .preload = "libjemalloc.so.2"});
    }
    return result;
}

INSTANTIATE_TEST_SUITE_P(Matrix, Allocators, ::testing::ValuesIn(cases()),
                         [](const auto& instance) { return instance.param.name(); });

} // namespace
} // namespace memleax::testing
