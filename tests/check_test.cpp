// SPDX-License-Identifier: GPL-3.0-or-later
// --check: each kind of memory error is told with all its stacks, and before glibc aborts; programs
// that do nothing wrong get no alarm, and are counted as without it (but for an operator new that
// fails, which counts once with it, and once for each malloc without).

#include <csignal>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

struct Wrong {
    std::string argument; ///< of memory_errors
    std::string kind;     ///< as in the report
    std::string here;
    std::string freed_before;
    std::string allocated;
    bool dies = true; ///< as glibc aborts
    std::string text; ///< in the text report
    int rounds = 3;   ///< where it does not die
};
void PrintTo(const Wrong& wrong, std::ostream* out) {
    *out << wrong.argument;
}

/// The first function of the program's in a backtrace; "" without one.
std::string own_function(const nlohmann::json& error, const char* member) {
    if (!error.contains(member)) {
        return "";
    }
    for (const auto& frame : error.at(member)) {
        if (frame.value("module", "") == "memory_errors") {
            const std::string function = frame.value("function", "");
            return function.substr(0, function.find('('));
        }
    }
    return "(none) " + error.at(member).dump();
}

class Errors : public ::testing::TestWithParam<Wrong> {
  protected:
    static void expect_error(const nlohmann::json& report, int count) {
        const Wrong& wrong = GetParam();
        const auto& errors = report.at("errors");
        ASSERT_EQ(errors.size(), 1U) << errors.dump(1);
        EXPECT_EQ(errors[0].at("kind"), wrong.kind);
        EXPECT_EQ(errors[0].at("count"), count);
        EXPECT_EQ(own_function(errors[0], "frames"), wrong.here);
        EXPECT_EQ(own_function(errors[0], "freed_before"), wrong.freed_before);
        EXPECT_EQ(own_function(errors[0], "allocated"), wrong.allocated);
        const auto& events = report.at("session").at("events");
        const bool is_double = wrong.kind == "double_free" || wrong.kind == "realloc_freed";
        EXPECT_EQ(events.at("double_free"), is_double ? count : 0);
        EXPECT_EQ(events.at("mismatched_free"), wrong.kind == "mismatch" ? count : 0);
        EXPECT_EQ(events.at("invalid_free"), is_double || wrong.kind == "mismatch" ? 0 : count);
    }
};

TEST_P(Errors, IsToldWithItsStacks) {
    Fixture fixture("memory_errors", {GetParam().argument});
    Memleax memleax({"-F", "json", "--check", "--error-exitcode", "7", "-e", "1000",
                     std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    Memleax::Result result;
    if (GetParam().dies) {
        fixture.process().send("go");
        result = memleax.finish();
        EXPECT_EQ(WTERMSIG(fixture.process().wait_for_end()), SIGABRT);
    } else {
        for (int round = 0; round < GetParam().rounds; ++round) {
            fixture.go();
        }
        result = memleax.interrupt_and_finish();
        EXPECT_EQ(fixture.quit(), 0);
    }
    EXPECT_EQ(WEXITSTATUS(result.status), 7) << result.errors;
    expect_error(result.json(), GetParam().dies ? 1 : GetParam().rounds);
}

TEST_P(Errors, OfAProgramThatWasStarted) {
    Memleax memleax(
        {"--check", "-e", "1000", "--", fixture_path("memory_errors"), GetParam().argument});
    ASSERT_EQ(memleax.process().read_line(), "ready");
    memleax.process().send("go");
    if (!GetParam().dies) {
        memleax.process().send("quit");
    }
    const auto result = memleax.finish();
    // Without --error-exitcode, the program's own: glibc's malloc ends it by abort(3).
    ASSERT_TRUE(WIFEXITED(result.status)) << result.errors;
    EXPECT_EQ(WEXITSTATUS(result.status), GetParam().dies ? 128 + SIGABRT : 0) << result.errors;
    EXPECT_THAT(result.output, HasSubstr("Error[1]: "));
    EXPECT_THAT(result.output, HasSubstr(GetParam().text));
    // While it was watched, and in the report.
    const auto live = result.output.find("Error[1]: ");
    EXPECT_NE(result.output.find("Error[1]: ", live + 1), std::string::npos) << result.output;
    EXPECT_THAT(result.output, HasSubstr("== Memory errors:\n"));
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Errors,
    ::testing::Values(
        Wrong{"double_free", "double_free", "freeing_again", "freeing_first", "allocating", true,
              " is freed a second time"},
        Wrong{"double_free_by_threads", "double_free", "freeing_again", "freeing_first",
              "allocating", false, "it was freed here:", 1}, // glibc does not look elsewhere
        Wrong{"double_free_of_object", "double_free", "deleting_and_freeing",
              "deleting_and_freeing", "making_object", true, " is freed a second time"},
        Wrong{"realloc_freed", "realloc_freed", "reallocating", "freeing_first", "allocating",
              false, " is reallocated after its free", 1},
        Wrong{"inside_block", "inside_block", "freeing_again", "", "allocating", true,
              "which is 160 bytes inside the block of 1000 bytes at "},
        Wrong{"inside_freed", "inside_freed", "freeing_again", "freeing_first", "allocating", true,
              "which is 160 bytes inside the block of 1000 bytes at "},
        Wrong{"beyond", "never_allocated", "freeing_again", "", "", true,
              ", which was never allocated"},
        Wrong{"new_by_free", "mismatch", "freeing_again", "", "making_object", false,
              ", from operator new, is ended by free"},
        Wrong{"array_by_delete", "mismatch", "deleting_object", "", "making_array", false,
              ", from operator new[], is ended by operator delete, here:"},
        Wrong{"object_by_array_delete", "mismatch", "deleting_array", "", "making_object", false,
              ", from operator new, is ended by operator delete[], here:"},
        Wrong{"malloc_by_delete", "mismatch", "deleting_object", "", "allocating", false,
              ", from malloc, is ended by operator delete, here:"},
        Wrong{"new_by_realloc", "mismatch", "reallocating", "", "making_object", false,
              ", from operator new, is ended by realloc, here:"}),
    [](const auto& instance) { return instance.param.argument; });

// Of a block from before the attach: its place is not known, but no allocator gives such addresses.
TEST(Check, AMisalignedAddressIsWrongWhateverIsKnown) {
    Fixture fixture("memory_errors", {"misaligned"});
    Memleax memleax({"-F", "json", "--check", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.process().send("go");
    const auto report = memleax.finish().json();
    ASSERT_EQ(report.at("errors").size(), 1U);
    EXPECT_EQ(report.at("errors")[0].at("kind"), "never_allocated");
    EXPECT_EQ(own_function(report.at("errors")[0], "frames"), "freeing_again");
}

TEST(Check, ABlockFromBeforeTheAttachIsFreedWithoutAnAlarm) {
    Fixture fixture("memory_errors", {"unknown"});
    Memleax memleax(
        {"-F", "json", "--check", "--error-exitcode", "7", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0);
    EXPECT_EQ(result.json().at("session").at("events").at("unknown_free"), 1);
    EXPECT_EQ(result.json().at("session").at("events").at("free"), 1);
    EXPECT_THAT(result.json().at("errors"), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(Check, WithoutItADoubleFreeIsToldWithoutTheFirstFree) {
    Fixture fixture("memory_errors", {"double_free"});
    Memleax memleax({"-F", "json", "--error-exitcode", "7", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.process().send("go");
    const auto result = memleax.finish();
    EXPECT_EQ(result.status, 0); // nothing has expired, and nobody asked for more
    const auto report = result.json();
    ASSERT_EQ(report.at("errors").size(), 1U);
    const auto& error = report.at("errors")[0];
    EXPECT_EQ(own_function(error, "frames"), "freeing_again");
    EXPECT_EQ(own_function(error, "allocated"), "allocating");
    EXPECT_FALSE(error.contains("freed_before"));
}

TEST(Check, WithoutItNothingElseIsLookedFor) {
    Fixture fixture("memory_errors", {"array_by_delete"});
    Memleax memleax({"-F", "json", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    fixture.go();
    const auto report = memleax.interrupt_and_finish().json();
    EXPECT_FALSE(report.contains("errors"));
    EXPECT_EQ(report.at("session").at("events").at("mismatched_free"), 0);
    EXPECT_EQ(fixture.quit(), 0);
}

// A signal between the functions that a free is made of made it two.
TEST(Check, AFreeThatSignalsInterruptIsOne) {
    for (const char* check : {"--quiet", "--check"}) {
        Fixture fixture("interrupted_frees");
        Memleax memleax({"-F", "json", check, "-e", "1000", std::to_string(fixture.pid())});
        memleax.wait_until_watching();
        const FixtureAnswer answer = fixture.go();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        expect_truth(result.json(), answer);
        const auto events = result.json().at("session").at("events");
        EXPECT_EQ(events.at("alloc"), answer.counts.at("blocks")) << check;
        EXPECT_EQ(events.at("free"), answer.counts.at("blocks")) << check;
        EXPECT_EQ(events.at("unknown_free"), 0) << check;
        EXPECT_EQ(fixture.quit(), 0);
    }
}

struct Right {
    std::string fixture;
    std::vector<std::string> arguments{};
    std::string preload{};
    std::string name() const { return row_name(fixture, arguments, preload); }
};
void PrintTo(const Right& right, std::ostream* out) {
    *out << right.name();
}

class NoErrors : public ::testing::TestWithParam<Right> {
  protected:
    void SetUp() override {
        if (!is_built(GetParam().fixture)) {
            GTEST_SKIP() << GetParam().fixture << " could not be built here";
        }
    }
};

TEST_P(NoErrors, AreFoundWhereThereAreNone) {
    const std::string& preload = GetParam().preload;
    Fixture fixture(GetParam().fixture, GetParam().arguments,
                    preload.empty() ? Environment{} : Environment{{"LD_PRELOAD", preload}});
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax({"-F", "json", "--check", "-e", "1000", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    const auto report = result.json();
    expect_truth(report, answer);
    EXPECT_THAT(report.at("errors"), IsEmpty()) << report.at("errors").dump(1);
    EXPECT_EQ(fixture.quit(), 0) << fixture.process().errors();
}

std::vector<Right> right_ones() {
    std::vector<Right> all;
    const auto add = [&all](const std::string& fixture, const std::vector<std::string>& arguments,
                            const std::string& preload = "") {
        all.push_back({fixture, arguments, preload});
    };
    for (const char* name : {"alloc_all", "alloc_all_cxx"}) {
        for (const char* kind : {"O0-fp-pie", "O2-nofp-pie", "O2-nofp-nopie"}) {
            add(fmt::format("{}-{}", name, kind), {});
        }
        for (const char* preload : {"interposer", "interposer_tail"}) {
            add(fmt::format("{}-O2-nofp-pie", name), {},
                fixture_path(fmt::format("lib{}.so", preload)));
        }
    }
    add("alloc_all-O2-nofp-pie", {}, "libc_malloc_debug.so.0");
    for (const char* name :
         {"other_stacks", "realloc_chains", "cross_thread_free", "failed_alloc", "recursion",
          "longjmp_exceptions", "thread_churn", "unknown_free", "dlopen_plugin", "forker",
          "signals", "big_live", "musl-alloc_all", "musl-realloc_chains", "musl-threads16",
          "musl-thread_churn", "musl-unknown_free", "musl-dynamic-threads16"}) {
        add(name, {});
    }
    add("interrupted_frees", {});
    add("busy_handler", {"nested"});
    add("threads16", {"1000", "5"});
    add("own_allocator", {"libown_allocator_plugin.so", "unload"});
    add("own_allocator", {"libhidden_plugin.so", "unload"});
    add("own_allocator", {"libhidden_je_plugin.so", "unload"});
    for (const char* suffix :
         {"", "-static", "-static-pie", "-jemalloc", "-jemalloc-a", "-tcmalloc", "-tcmalloc-a",
          "-tcmalloc_minimal", "-tcmalloc_minimal-a", "-mimalloc"}) {
        add(fmt::format("threads16{}", suffix), {});
        const bool can_fail = std::string(suffix) != "-mimalloc";
        add(fmt::format("cxx_operators{}", suffix),
            can_fail ? std::vector<std::string>{"fails"} : std::vector<std::string>{});
    }
    for (const auto& [suffix, library] :
         {std::pair("-jemalloc", "libjemalloc.so.2"), std::pair("-tcmalloc", "libtcmalloc.so.4"),
          std::pair("-mimalloc", "libmimalloc.so.2")}) {
        if (is_built(std::string("threads16") + suffix)) {
            add("threads16", {}, library);
            add("cxx_operators", {}, library);
        }
    }
    return all;
}

INSTANTIATE_TEST_SUITE_P(Fixtures, NoErrors, ::testing::ValuesIn(right_ones()),
                         [](const auto& instance) { return instance.param.name(); });

} // namespace
} // namespace memleax::testing
