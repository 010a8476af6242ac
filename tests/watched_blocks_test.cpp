// SPDX-License-Identifier: GPL-3.0-or-later
// Looks at the blocks that were watched, in processes whose heap cannot be listed.
#include <algorithm>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks_support.hpp"
#include "process_support.hpp"
#include "prompt_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// What is preloaded: a library of the system's, or one of fixtures/.
Environment preloaded(const std::string& library) {
    const std::string own = fixture_path(library);
    return {{"LD_PRELOAD", access(own.c_str(), R_OK) == 0 ? own : library}};
}

bool is_there(const std::string& library) {
    return library.starts_with("libforgetful") ||
           access(("/usr/lib/x86_64-linux-gnu/" + library).c_str(), R_OK) == 0 ||
           access(("/usr/lib/aarch64-linux-gnu/" + library).c_str(), R_OK) == 0;
}

std::string library_name(const ::testing::TestParamInfo<const char*>& instance) {
    const std::string name = instance.param;
    return name.substr(3, name.find('.') - 3);
}

struct Watched {
    FixtureAnswer answer;
    Memleax::Result result;
    nlohmann::json report;
};

/// What the fixture does in a round is watched, and looked at.
Watched watch(const std::string& fixture_name, const std::string& library) {
    Watched watched;
    Fixture fixture(fixture_name, {}, preloaded(library));
    Memleax memleax({"--leak-check", "-t", "1000", "-F", "json", "--error-exitcode", "9",
                     "--errors-for", "lost", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    watched.answer = fixture.go();
    watched.result = memleax.interrupt_and_finish();
    watched.report = watched.result.json();
    EXPECT_EQ(fixture.quit(), 0);
    return watched;
}

class WatchedBlocks : public ::testing::Test {};

// Nothing hides there.
TEST_F(WatchedBlocks, EachIsInItsClassAndLostOnesHaveTheirStacks) {
    const Watched watched = watch("lost_blocks", "libforgetful_malloc.so");
    EXPECT_EQ(WEXITSTATUS(watched.result.status), 9) << watched.result.errors;
    EXPECT_EQ(classes_of(watched.report), watched.answer.truth) << watched.report["leak_check"];
    const auto& check = watched.report.at("leak_check");
    EXPECT_EQ(check.at("scope"), "watched");
    EXPECT_THAT(check.at("scope_why").get<std::string>(), HasSubstr("libforgetful_malloc.so"));
    for (const auto& record : check.at("records")) {
        EXPECT_TRUE(record.contains("frames")) << record;
    }
    for (const auto& stack : watched.report.at("callstacks")) {
        const bool loses = own_functions(stack).find("lose_") != std::string::npos;
        EXPECT_TRUE(!loses || stack.at("verdict") == "lost") << stack;
    }
}

TEST_F(WatchedBlocks, EachSizeIsFound) {
    const Watched watched = watch("lost_sizes", "libforgetful_malloc.so");
    Leaks lost;
    for (const auto& record : watched.report.at("leak_check").at("records")) {
        if (record.at("class") == "definite") {
            Leak& leak = lost[allocating_function(record)];
            leak.blocks += record.at("blocks").get<std::int64_t>();
            leak.bytes += record.at("bytes").get<std::int64_t>();
        } else {
            EXPECT_NE(record.at("class"), "indirect") << record;
        }
    }
    EXPECT_EQ(lost, watched.answer.truth);
}

class WatchedBlocksOf : public WatchedBlocks, public ::testing::WithParamInterface<const char*> {
  protected:
    void SetUp() override {
        if (!is_there(GetParam())) {
            GTEST_SKIP() << "there is no " << GetParam();
        }
    }
};

/// The fixture's lost blocks are in functions whose names say so, but for these.
bool is_lost(const nlohmann::json& record) {
    const std::string functions = own_functions(record);
    const std::int64_t size = record.value("size", 0);
    return functions.find("lose_") != std::string::npos ||
           (functions.find("work") != std::string::npos && size == 328) ||
           (functions.find("keep_globally") != std::string::npos && size == 168); // XORed
}

TEST_P(WatchedBlocksOf, NothingThatIsHeldIsLost) {
    for (const char* fixture : {"lost_blocks", "lost_sizes"}) {
        const Watched watched = watch(fixture, GetParam());
        EXPECT_THAT(watched.answer.failures, IsEmpty());
        std::int64_t found = 0;
        for (const auto& record : watched.report.at("leak_check").at("records")) {
            if (record.at("class") == "definite" || record.at("class") == "indirect") {
                EXPECT_TRUE(is_lost(record)) << record;
                found += record.at("blocks").get<std::int64_t>();
            }
        }
        EXPECT_GT(found, 0) << watched.report.at("leak_check");
    }
}

INSTANTIATE_TEST_SUITE_P(Preloaded, WatchedBlocksOf,
                         ::testing::Values("libforgetful_malloc.so", "libjemalloc.so.2",
                                           "libtcmalloc.so.4", "libtcmalloc_minimal.so.4",
                                           "libmimalloc.so.2"),
                         library_name);

} // namespace
} // namespace memleax::testing
