// SPDX-License-Identifier: GPL-3.0-or-later
// Programs with LeakSanitizer, which fails where they are traced at their end: the user is told.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "process_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr const char* kWords = "has LeakSanitizer";

std::size_t warnings_in(const std::string& errors) {
    std::size_t count = 0;
    for (std::size_t at = errors.find(kWords); at != std::string::npos;
         at = errors.find(kWords, at + 1)) {
        ++count;
    }
    return count;
}

std::string errors_of_a_visit(Fixture& fixture) {
    Memleax memleax({"-F", "json", std::to_string(fixture.pid())});
    memleax.wait_until_watching();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(fixture.quit(), 0);
    return result.errors;
}

class LeakSanitizer : public ::testing::TestWithParam<const char*> {
  protected:
    void SetUp() override {
        if (!is_built(GetParam())) {
            GTEST_SKIP() << "the compiler has no such AddressSanitizer";
        }
    }
    Environment without_leaks_{{"LSAN_OPTIONS", "detect_leaks=0"}}; ///< the fixture's own
};

TEST_P(LeakSanitizer, IsToldOfAtTheAttach) {
    Fixture fixture(GetParam(), {}, without_leaks_);
    const std::string errors = errors_of_a_visit(fixture);
    EXPECT_EQ(warnings_in(errors), 1U) << errors;
    EXPECT_THAT(errors, HasSubstr("process " + std::to_string(fixture.pid()) + " " + kWords));
}

// And the advice is good.
TEST_P(LeakSanitizer, IsToldOfOnceForAllProcesses) {
    const std::string program = fixture_path(GetParam()) + " </dev/null || exit 9; ";
    Memleax memleax({"-f", "-F", "json", "--", "/bin/sh", "-c",
                     "export LSAN_OPTIONS=detect_leaks=0; " + program + program + "exit 3"});
    const auto result = memleax.finish();
    EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 3) << result.errors;
    EXPECT_EQ(warnings_in(result.errors), 1U) << result.errors;
}

INSTANTIATE_TEST_SUITE_P(In, LeakSanitizer, ::testing::Values("sanitized", "static_sanitized"),
                         [](const auto& instance) { return std::string(instance.param); });

TEST(NoLeakSanitizer, NothingIsTold) {
    Fixture fixture("cross_thread_free");
    EXPECT_THAT(errors_of_a_visit(fixture), Not(HasSubstr(kWords)));
}

} // namespace
} // namespace memleax::testing
