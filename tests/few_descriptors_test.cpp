// SPDX-License-Identifier: GPL-3.0-or-later
// memleax with a small descriptor table: it watches as always, or says that it cannot, at once, and
// the target has noticed nothing.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>

#include "build_paths.hpp"
#include "leaks_support.hpp"
#include "sanitizer_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// With so many descriptors, of which a shell has opened some before.
Memleax memleax_with(int descriptors, pid_t pid, int taken) {
    std::string script = fmt::format("ulimit -n {}; ", descriptors);
    for (int i = 0; i < taken; ++i) {
        script += fmt::format("exec {}</dev/null; ", 3 + i);
    }
    script += fmt::format("exec {} -F json -e 1000 {}", MEMLEAX_PROGRAM, pid);
    return Memleax(CommandLine{{"/bin/bash", "-c", script}});
}

/// By a memleax with so many descriptors. True if it was watched, false if it was refused. Anything
/// else is a failure.
bool watched_or_refused(Fixture& fixture, int descriptors, int taken = 0) {
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax = memleax_with(descriptors, fixture.pid(), taken);
    const bool watching = memleax.process().find_error_line("watching").has_value();
    if (watching) {
        EXPECT_THAT(fixture.go().failures, IsEmpty());
    }
    const auto result = watching ? memleax.interrupt_and_finish() : memleax.finish();
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()),
                            watching ? Meanwhile::worked : Meanwhile::idle),
                IsEmpty());
    if (watching) {
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_GT(result.json().at("session").at("events").at("alloc"), 0);
    } else {
        EXPECT_TRUE(WIFEXITED(result.status)) << result.status;
        EXPECT_THAT(WEXITSTATUS(result.status), AnyOf(1, 127))
            << result.errors; // 127: no libraries
        // The dynamic linker does not know the words, and UBSan calls objects invalid then.
        if (!test::kIsSanitized) {
            EXPECT_THAT(result.errors,
                        AnyOf(HasSubstr("Too many open files"), HasSubstr("Error 24")));
        }
    }
    return watching;
}

TEST(FewDescriptors, AreRefusedBeforeTheTargetIsTouched) {
    Fixture fixture("confined");
    bool was_watched = false;
    for (const int limit : {4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 50, 60, 64, 66, 70, 80, 128}) {
        const bool watched = watched_or_refused(fixture, limit);
        EXPECT_TRUE(watched || !was_watched) << "not with " << limit << " but with fewer";
        was_watched = was_watched || watched;
    }
    EXPECT_TRUE(was_watched);
    EXPECT_FALSE(watched_or_refused(fixture, 128, 90));
    EXPECT_EQ(fixture.quit(), 0);
}

// Ours get other numbers then: the guardian, which is given two of them, must be there all the
// same.
TEST(FewDescriptors, MayBeTakenByAnybodyBefore) {
    Fixture fixture("confined");
    for (int taken = 0; taken <= 12; ++taken) {
        std::string script;
        for (int fd = 3; fd < 3 + 13; ++fd) { // whatever the test's own parent has left open
            script += fmt::format("exec {}<{}; ", fd, fd < 3 + taken ? "/dev/null" : "&-");
        }
        script += fmt::format("exec {} -F json {}", MEMLEAX_PROGRAM, fixture.pid());
        Memleax memleax(CommandLine{{"/bin/bash", "-c", script}});
        memleax.wait_until_watching();
        const auto result = memleax.interrupt_and_finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(result.errors, Not(HasSubstr("guardian"))) << taken << " are taken";
    }
    EXPECT_EQ(fixture.quit(), 0);
}

// The files of modules never take the last ones: children are cleaned, and leaving works. More of
// them are loaded than there are descriptors.
TEST(FewDescriptors, AreKeptForWhatMustBeDone) {
    Fixture fixture("many_modules", {"90"});
    EXPECT_TRUE(watched_or_refused(fixture, 80));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
