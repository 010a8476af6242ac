// SPDX-License-Identifier: GPL-3.0-or-later
// memleax is killed, and its guardian may have no further thread, or no more memory than memleax
// had: the targets are put back all the same.
#include <csignal>
#include <cstdint>
#include <deque>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "build_paths.hpp"
#include "kill_support.hpp"
#include "limited_group_support.hpp"
#include "sanitizer_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

/// Programs that work meanwhile.
class WorkingPrograms {
  public:
    explicit WorkingPrograms(int count) {
        for (int i = 0; i < count; ++i) {
            Fixture& fixture = fixtures_.emplace_back("survivor");
            before_.push_back(take_snapshot(fixture.pid()));
            fixture.process().send("spin");
            EXPECT_EQ(fixture.process().read_line(), "spinning");
        }
    }
    [[nodiscard]] std::vector<std::string> pids() {
        std::vector<std::string> result;
        for (Fixture& fixture : fixtures_) {
            result.push_back(std::to_string(fixture.pid()));
        }
        return result;
    }
    /// By the guardian of this one, which is watching.
    void expect_to_be_put_back_by_guardian_of(Memleax& memleax) {
        memleax.process().signal(SIGKILL);
        const auto killed = memleax.finish();
        EXPECT_EQ(killed.status, SIGKILL);
        for (std::size_t i = 0; i < fixtures_.size(); ++i) {
            Fixture& fixture = fixtures_[i];
            EXPECT_THAT(killed.errors,
                        HasSubstr(fmt::format("process {} is as it was before", fixture.pid())));
            EXPECT_THAT(fixture.ask("stop").failures, IsEmpty());
            EXPECT_THAT(differences(before_[i], take_snapshot(fixture.pid()), Meanwhile::worked),
                        IsEmpty());
            EXPECT_EQ(fixture.quit(), 0);
        }
    }

  private:
    std::deque<Fixture> fixtures_;
    std::vector<TargetSnapshot> before_;
};

/// memleax, which watches these.
std::vector<std::string> watching(const std::vector<std::string>& pids) {
    std::vector<std::string> words{"-q", "-e", "1000"};
    words.insert(words.end(), pids.begin(), pids.end());
    return words;
}

TEST(LimitedGuardian, NeedsNoThread) {
    for (const GroupLimit& limit : kProcessLimits) {
        const LimitedGroup group(limit, 1); // goes last: it has to be empty
        WorkingPrograms programs(2);
        Memleax memleax(watching(programs.pids()));
        memleax.wait_until_watching();
        const auto guardian = guardian_of(memleax);
        if (!guardian) {
            GTEST_SKIP() << "this kernel does not list children (CONFIG_PROC_CHILDREN)";
        }
        if (group.takes(*guardian)) {
            programs.expect_to_be_put_back_by_guardian_of(memleax);
            return;
        }
    }
    GTEST_SKIP() << "no control group with a limit of processes can be made here";
}

/// How many KiB of addresses a memleax takes at most that watches these; it leaves them.
std::uint64_t needed_kib(const std::vector<std::string>& pids) {
    Memleax memleax(watching(pids));
    memleax.wait_until_watching();
    std::ifstream status(fmt::format("/proc/{}/status", memleax.process().pid()));
    std::uint64_t result = 0;
    for (std::string word; status >> word && word != "VmPeak:";) {
    }
    status >> result;
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    return result;
}

TEST(LimitedGuardian, NeedsNoMoreMemoryThanMemleaxDid) {
    if (test::kIsSanitized) {
        GTEST_SKIP() << "its shadow is larger than any limit";
    }
    constexpr std::uint64_t kToSpareKib = 64 << 10;
    WorkingPrograms programs(8);
    const auto pids = programs.pids();
    std::vector<std::string> words{
        "/bin/bash", "-c", fmt::format("ulimit -v {}; exec \"$@\"", needed_kib(pids) + kToSpareKib),
        "bash"};
    for (const auto& more : {memleax_command(), watching(pids)}) {
        words.insert(words.end(), more.begin(), more.end());
    }
    Memleax memleax(CommandLine{words});
    memleax.wait_until_watching();
    programs.expect_to_be_put_back_by_guardian_of(memleax);
}

} // namespace
} // namespace memleax::testing
