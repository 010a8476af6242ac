// SPDX-License-Identifier: GPL-3.0-or-later
// memleax does not take all of the machine's memory, whatever it reads; what it starts is not
// limited.
#include <cstdint>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "memleax/session/session.hpp"
#include "process_support.hpp"
#include "sanitizer_support.hpp"
#include "share_support.hpp"

namespace memleax::testing {
namespace {

TEST(MemoryLimit, LeavesAQuarterToOthers) {
    if (test::kIsSanitized) {
        GTEST_SKIP() << "its shadow is larger than any limit";
    }
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) { // the limits are the process's
        rlimit before{};
        getrlimit(RLIMIT_DATA, &before);
        const SpawnAttributes inherited = prepare_process();
        const auto all = static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES)) *
                         static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
        const auto can_map = [](std::size_t bytes) {
            void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
            return memory != MAP_FAILED && munmap(memory, bytes) == 0;
        };
        const bool right =
            inherited.data.rlim_cur == before.rlim_cur && can_map(all / 2) && !can_map(all / 8 * 7);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
}

TEST(MemoryLimit, IsNotTheStartedProgramsOwn) {
    rlimit before{};
    getrlimit(RLIMIT_DATA, &before);
    if (before.rlim_cur != RLIM_INFINITY) {
        GTEST_SKIP() << "this process is limited itself";
    }
    const auto result = Memleax({"--", "/bin/sh", "-c", "ulimit -d"}).finish();
    EXPECT_THAT(result.output, ::testing::HasSubstr("unlimited\n")) << result.errors;
}

TEST(MemoryLimit, AllowsForHundredsOfChildren) {
    if (test::kIsSanitized) {
        GTEST_SKIP() << "its shadow is larger than any limit";
    }
    Fixture family("family");
    const std::string kib = std::to_string(1UL << 20U);
    Memleax memleax(CommandLine{{"/bin/sh", "-c",
                                 "ulimit -d " + kib + "; exec \"$0\" -f -F json -e 1000 \"$1\"",
                                 MEMLEAX_PROGRAM, std::to_string(family.pid())}});
    memleax.wait_until_watching();
    EXPECT_THAT(family.ask("server").failures, ::testing::IsEmpty());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_EQ(result.json().at("processes").size(), share_of(200) + 1U);
    EXPECT_EQ(family.quit(), 0);
}

/// What memleax says in a shell that sets these limits (ulimit) before.
std::string errors_with(const std::string& limits, pid_t pid) {
    return Memleax(CommandLine{{"/bin/bash", "-c", limits + "; exec \"$0\" -t 0.1 \"$1\"",
                                MEMLEAX_PROGRAM, std::to_string(pid)}})
        .finish()
        .errors;
}

TEST(MemoryLimit, ThatIsTooLowIsNoInternalError) {
    if (test::kIsSanitized) {
        GTEST_SKIP() << "its shadow is larger than any limit";
    }
    Fixture fixture("expiring");
    bool said = false;
    for (const int mib : {60, 80, 100, 120}) {
        const std::string errors =
            errors_with(fmt::format("ulimit -v {}", mib * 1024), fixture.pid());
        EXPECT_THAT(errors, ::testing::Not(::testing::HasSubstr("internal error"))) << mib;
        said = said || errors.find("error: not enough memory for memleax itself; look at") !=
                           std::string::npos;
    }
    EXPECT_TRUE(said);
    // A thread's stack is as large as this limit has it.
    EXPECT_THAT(
        errors_with(fmt::format("ulimit -s {}; ulimit -v {}", 1 << 30, 1 << 20), fixture.pid()),
        ::testing::HasSubstr("error: cannot start a thread: Resource temporarily unavailable"));
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
