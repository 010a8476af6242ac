// SPDX-License-Identifier: GPL-3.0-or-later
// --leak-check --snapshot fork: what is found is the truth, also of memory that a fork does not
// give to a child, and the process does not notice that it had one.
#include <csignal>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "leaks_support.hpp"
#include "limited_group_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/process_memory.hpp"
#include "process_support.hpp"
#include "program_support.hpp"
#include "snapshot_support.hpp"
#include "worker_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;

constexpr const char* kWhyNot = "is not forked";

Memleax::Result look(pid_t pid, const CommandLine& before = {}) {
    CommandLine command = before;
    const auto memleax = memleax_command();
    command.words.insert(command.words.end(), memleax.begin(), memleax.end());
    command.words.insert(command.words.end(),
                         {"--leak-check", "--snapshot", "fork", "-F", "json", std::to_string(pid)});
    return Memleax(command).finish();
}

TEST(ForkedLook, FindsTheTruthAndIsNotNoticed) {
    Fixture fixture("parent");
    const auto first = look(fixture.pid());
    ASSERT_EQ(first.status, 0) << first.errors;
    const Leaks before = classes_of(first.json());
    EXPECT_EQ(before.at("definite"), Leak{});
    const FixtureAnswer noticed_before = fixture.ask("look");
    EXPECT_EQ(noticed_before.counts.at("own"), 1);
    EXPECT_EQ(noticed_before.counts.at("others"), 0);
    EXPECT_EQ(noticed_before.counts.at("sigchld"), 0);
    EXPECT_EQ(noticed_before.counts.at("locks"), 1);
    const FixtureAnswer answer = fixture.go();
    const TargetSnapshot untouched = take_snapshot(fixture.pid());
    for (int i = 0; i < 5; ++i) {
        const auto result = look(fixture.pid());
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(result.errors, Not(HasSubstr(kWhyNot)));
        EXPECT_EQ(difference(classes_of(result.json()), before), answer.truth) << result.output;
        EXPECT_THAT(differences(untouched, take_snapshot(fixture.pid()), Meanwhile::idle),
                    IsEmpty());
    }
    EXPECT_EQ(fixture.ask("look").counts, noticed_before.counts);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(ForkedLook, IsNotNoticedByOneThatWorks) {
    Fixture fixture("parent");
    const auto noticed_before = fixture.ask("look").counts;
    for (int i = 0; i < 10; ++i) {
        fixture.process().send("spin");
        ASSERT_EQ(fixture.process().read_line(), "spinning");
        const auto result = look(fixture.pid());
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_THAT(result.errors, Not(HasSubstr(kWhyNot)));
        fixture.ask("stop");
        EXPECT_EQ(fixture.ask("look").counts, noticed_before);
    }
    EXPECT_EQ(fixture.quit(), 0);
}

/// The heap is read all the same.
void expect_a_copy(Fixture& fixture, const std::string& why) {
    fixture.go();
    const auto result = look(fixture.pid());
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(kWhyNot));
    EXPECT_THAT(result.errors, HasSubstr(why));
    EXPECT_TRUE(result.json().at("leak_check").at("complete"));
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

void expect_a_copy(const CommandLine& target, const std::string& why) {
    Fixture fixture(target);
    expect_a_copy(fixture, why);
}

TEST(ForkedLook, IsACopyWhereAFilterMayForbidWhatEndsAFork) {
    expect_a_copy({{fixture_path("filtered"), fixture_path("lost_blocks")}}, "seccomp");
}

TEST(ForkedLook, IsACopyWhereThereMayBeNoFurtherProcess) {
    if (geteuid() != 0 || !has_program("prlimit")) {
        GTEST_SKIP() << "needs prlimit, and a user of whom nobody else has a process";
    }
    expect_a_copy({{"prlimit", "--nproc=1", "/usr/bin/setpriv", "--reuid=65533", "--regid=65533",
                    "--clear-groups", fixture_path("held_blocks")}},
                  "it cannot be copied: Resource temporarily unavailable");
}

TEST(ForkedLook, IsACopyWhereChildrenAreInAnotherNamespace) {
    if (!has_program("unshare") || geteuid() != 0) {
        GTEST_SKIP() << "needs unshare, and root";
    }
    expect_a_copy({{"unshare", "--pid", fixture_path("held_blocks")}}, "another PID namespace");
}

TEST(ForkedLook, IsACopyWhereItsGroupHasNoRoomForProcesses) {
    for (const GroupLimit& limit : kProcessLimits) {
        const LimitedGroup group(limit, 1); // goes last: it has to be empty
        Fixture fixture("held_blocks");
        if (group.takes(fixture.pid())) {
            expect_a_copy(fixture, "its control group has no room for further processes");
            return;
        }
    }
    GTEST_SKIP() << "no control group with a limit of processes can be made here";
}

class ForkedLookInGroup : public ::testing::TestWithParam<GroupLimit> {};

// What the process writes to while there is a copy of it is copied, and counts as its group's.
TEST_P(ForkedLookInGroup, IsACopyWhereItsGroupHasNoRoomForMemory) {
    const LimitedGroup group(GetParam(), 100 << 20);
    Fixture fixture("grower");
    if (!group.takes(fixture.pid())) {
        GTEST_SKIP() << "no " << GetParam().type << " with memory limits that we may use here";
    }
    fixture.ask("grow 30");
    const auto with_room = look(fixture.pid());
    EXPECT_EQ(with_room.status, 0) << with_room.errors;
    EXPECT_THAT(with_room.errors, Not(HasSubstr(kWhyNot)));
    const FixtureAnswer grown = fixture.ask("grow 30");
    const auto without = look(fixture.pid());
    EXPECT_EQ(without.status, 0) << without.errors;
    EXPECT_THAT(without.errors, HasSubstr(kWhyNot));
    EXPECT_THAT(without.errors, HasSubstr("its control group has no room for its memory a second "
                                          "time"));
    EXPECT_EQ(classes_of(without.json()).at("definite"), Leak{});
    EXPECT_EQ(classes_of(without.json()).at("reachable").blocks,
              classes_of(with_room.json()).at("reachable").blocks + 1);
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    EXPECT_EQ(fixture.ask("look").truth, grown.truth);
    EXPECT_EQ(fixture.quit(), 0);
}

// By default a small process is copied, which takes no longer; a larger one is to be forked.
TEST_P(ForkedLookInGroup, IsTheDefaultForWhatIsNotSmall) {
    const LimitedGroup group(GetParam(), 40 << 20);
    Fixture small("held_blocks");
    Fixture large("grower");
    if (!group.takes(large.pid()) || !group.takes(small.pid())) {
        GTEST_SKIP() << "no " << GetParam().type << " with memory limits that we may use here";
    }
    large.ask("grow 30");
    for (Fixture* fixture : {&small, &large}) {
        const auto result =
            Memleax({"--leak-check", "-F", "json", std::to_string(fixture->pid())}).finish();
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_EQ(result.errors.find("no room for its memory a second time") != std::string::npos,
                  fixture == &large)
            << result.errors;
        EXPECT_TRUE(result.json().at("leak_check").at("complete"));
        EXPECT_EQ(fixture->quit(), 0);
    }
}

// What is swapped out comes back to be read. Where neither memory nor swap has room the kernel
// kills for it.
TEST_P(ForkedLookInGroup, IsRefusedWhereWhatIsSwappedOutHasNoRoom) {
    constexpr std::uint64_t kMiB = 1 << 20;
    const LimitedGroup group(GetParam(), 40 * kMiB, LimitedGroup::Swap::yes);
    const SwapFile swap(64 * kMiB);
    Fixture fixture("grower");
    if (!group.takes(fixture.pid()) || !swap.is_used()) {
        GTEST_SKIP() << "no " << GetParam().type << " with memory limits, or no swapping";
    }
    fixture.ask("grow 30");
    const FixtureAnswer grown = fixture.ask("grow 30");
    const std::uint64_t swapped = try_read_swapped_bytes(Tid(fixture.pid())).value_or(0);
    ASSERT_GT(swapped, 16 * kMiB);
    for (const char* way : {"fork", "copy"}) {
        const auto refused =
            Memleax({"--leak-check", "--snapshot", way, std::to_string(fixture.pid())}).finish();
        EXPECT_EQ(WEXITSTATUS(refused.status), 1) << refused.output;
        EXPECT_THAT(refused.errors, HasSubstr("its control group has no room for what it has "
                                              "swapped out"));
    }
    EXPECT_GT(try_read_swapped_bytes(Tid(fixture.pid())).value_or(0), swapped - kMiB);
    ASSERT_TRUE(group.limit_to(200 * kMiB));
    const auto with_room = look(fixture.pid());
    EXPECT_EQ(with_room.status, 0) << with_room.errors;
    EXPECT_EQ(classes_of(with_room.json()).at("definite"), Leak{});
    EXPECT_EQ(fixture.ask("look").truth, grown.truth);
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Versions, ForkedLookInGroup, ::testing::ValuesIn(kMemoryLimits),
                         [](const auto& instance) { return std::string(instance.param.name); });

/// What in_kernel_use has, and why it is not forked for that; "": it is.
struct KernelUse {
    const char* name;
    const char* why_not;
};
void PrintTo(const KernelUse& use, std::ostream* out) {
    *out << use.name;
}

class ForkedLookAtKernelUse : public ::testing::TestWithParam<KernelUse> {
  protected:
    /// Why the kernel does not have it; "" if it has.
    static std::string skipped() {
        ChildProcess probe(
            std::vector<std::string>{fixture_path("in_kernel_use"), GetParam().name});
        const std::string line = probe.read_line().value_or("");
        probe.send("quit");
        probe.wait_for_end();
        return line.starts_with("skip") ? line : "";
    }
};

TEST_P(ForkedLookAtKernelUse, FindsTheTruthAndItWorksOn) {
    if (const std::string why = skipped(); !why.empty()) {
        GTEST_SKIP() << why;
    }
    const std::string why_not = GetParam().why_not;
    Fixture fixture("in_kernel_use", {GetParam().name});
    const Leaks before = classes_of(look(fixture.pid()).json());
    EXPECT_EQ(before.at("definite"), Leak{});
    const FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    for (int i = 1; i <= 5; ++i) {
        const TargetSnapshot untouched = take_snapshot(fixture.pid());
        const auto result = look(fixture.pid());
        EXPECT_EQ(result.status, 0) << result.errors;
        EXPECT_EQ(result.errors.find(kWhyNot) == std::string::npos, why_not.empty())
            << result.errors;
        EXPECT_THAT(result.errors, HasSubstr(why_not));
        EXPECT_THAT(result.errors, Not(HasSubstr("not supported"))) << "that says nothing more";
        EXPECT_EQ(difference(classes_of(result.json()), before), answer.truth) << result.output;
        EXPECT_THAT(differences(untouched, take_snapshot(fixture.pid()), Meanwhile::idle),
                    IsEmpty());
        EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
        const FixtureAnswer used = fixture.ask("use");
        EXPECT_THAT(used.failures, IsEmpty());
        EXPECT_EQ(used.counts.at("used"), i);
        EXPECT_EQ(used.counts.at("forks"), 0);
    }
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(
    Uses, ForkedLookAtKernelUse,
    ::testing::Values(KernelUse{"io_uring", "what io_uring reads"},
                      KernelUse{"aio", "what the kernel's asynchronous I/O reads"},
                      KernelUse{"userfaultfd", ""},
                      KernelUse{"userfaultfd_fork", "has forks wait until they are read"},
                      KernelUse{"huge", "private huge pages"}),
    [](const auto& instance) { return std::string(instance.param.name); });

// Who brings the page stands still, too.
TEST(ForkedLook, DoesNotReadAStackOfWhichAPageIsMissing) {
    ChildProcess process(
        std::vector<std::string>{fixture_path("in_kernel_use"), "userfaultfd_stack"});
    const std::string line = process.read_line().value_or("");
    if (line.starts_with("skip")) {
        GTEST_SKIP() << line;
    }
    ASSERT_EQ(line, "ready");
    int used = 0;
    for (const char* how : {"auto", "copy", "fork"}) {
        process.send("use"); // it has got to where it waits
        EXPECT_EQ(read_answer(process).counts.at("used"), ++used);
        const auto result = Memleax({"--leak-check", "--snapshot", how, "-F", "json",
                                     std::to_string(process.pid())})
                                .finish();
        EXPECT_NE(result.status, 0);
        EXPECT_THAT(result.errors + result.output, HasSubstr("(userfaultfd)")) << how;
    }
    process.send("use");
    EXPECT_EQ(read_answer(process).counts.at("used"), ++used);
    process.send("quit");
    EXPECT_TRUE(process.wait_for_exit());
}

TEST(ForkedLook, LeavesAStoppedProcessStopped) {
    Fixture fixture("lost_blocks");
    fixture.process().signal(SIGSTOP);
    siginfo_t info{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(fixture.pid()), &info, WSTOPPED | WNOWAIT), 0);
    const auto result = look(fixture.pid());
    EXPECT_THAT(result.errors, HasSubstr("it is stopped by a signal"));
    EXPECT_EQ(try_read_process_info(Tid(fixture.pid()))->state, 'T');
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    fixture.process().signal(SIGCONT);
    EXPECT_EQ(fixture.quit(), 0);
}

// Such a thread cannot be stopped: it waits in the kernel (state D) until its child, which has the
// same memory, goes on.
TEST(ForkedLook, IsNoneWhereAThreadWaitsForItsChildByVfork) {
    Fixture fixture("vforker", {"shared"});
    fixture.process().send("hold 1");
    const std::string held = fixture.process().read_line().value_or("");
    ASSERT_THAT(held, StartsWith("held "));
    const std::set<pid_t> children = children_of(fixture.pid());
    EXPECT_THAT(children, ElementsAre(std::stoi(held.substr(5))));
    const auto result = look(fixture.pid());
    EXPECT_EQ(WEXITSTATUS(result.status), 1) << result.errors;
    EXPECT_FALSE(result.json().at("leak_check").at("complete")) << result.output;
    EXPECT_THAT(result.output, HasSubstr("waits in the kernel, where it cannot be stopped"));
    EXPECT_EQ(children_of(fixture.pid()), children);
    fixture.process().send("on");
    EXPECT_THAT(read_answer(fixture.process()).failures, IsEmpty());
    EXPECT_THAT(children_of(fixture.pid()), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

} // namespace
} // namespace memleax::testing
