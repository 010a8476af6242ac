// SPDX-License-Identifier: GPL-3.0-or-later
// Targets in other mount, PID and user namespaces, whose files, debug files too, are nowhere to be
// seen for us: counts, names and leaving are as everywhere.
#include <filesystem>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "container_support.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Words = std::vector<std::string>;

const Words kAll{"--user", "--map-root-user", "--mount", "--pid", "--fork", "--kill-child"};

/// Where memleax runs, and what it is told.
enum class Watcher {
    outside, ///< the process's number is ours
    ns_pid,  ///< the container's number, and the container's first process
    nobody,  ///< without privileges: files come by /proc/PID/root, if at all
    beside,  ///< in the PID namespace, but not in the mount namespace: an ephemeral container
};

struct Case {
    const char* name;
    Container container;
    Watcher watcher = Watcher::outside;
};
void PrintTo(const Case& test_case, std::ostream* out) {
    *out << test_case.name;
}

class Containers : public ::testing::TestWithParam<Case> {
  protected:
    void SetUp() override {
        const std::string reason = why_not(GetParam().container);
        if (!reason.empty()) {
            GTEST_SKIP() << reason;
        }
        if (GetParam().watcher == Watcher::beside && geteuid() != 0) {
            GTEST_SKIP() << "entering a PID namespace needs root";
        }
    }
    static CommandLine command_for(const ContainedFixture& target) {
        const Words watch{MEMLEAX_PROGRAM, "-i", "-F", "json", "-e", "1000"};
        const auto with = [&watch](Words before, const Words& after) {
            before.insert(before.end(), watch.begin(), watch.end());
            before.insert(before.end(), after.begin(), after.end());
            return CommandLine{before};
        };
        switch (GetParam().watcher) {
        case Watcher::ns_pid:
            return with({}, {"--ns-pid", std::to_string(target.inner_pid()),
                             std::to_string(target.init())});
        case Watcher::nobody:
            return unprivileged(with({}, {std::to_string(target.pid())}));
        case Watcher::beside:
            return with({"/usr/bin/nsenter", "--target", std::to_string(target.init()), "--pid",
                         "/usr/bin/unshare", "--mount", "/bin/sh", "-c",
                         "mount -t proc proc /proc && exec \"$@\"", "sh"},
                        {std::to_string(target.inner_pid())});
        case Watcher::outside:
            break;
        }
        return with({}, {std::to_string(target.pid())});
    }
};

/// Each stack's first frame that is the program's own.
void expect_source_lines(const nlohmann::json& report) {
    EXPECT_FALSE(report.at("callstacks").empty());
    for (const auto& stack : report.at("callstacks")) {
        for (const auto& frame : stack.at("frames")) {
            if (frame.value("module", "") == "inside") {
                EXPECT_EQ(std::filesystem::path(frame.value("file", "")).filename(), "alloc_all.c")
                    << frame;
                EXPECT_GT(frame.value("line", 0), 0) << frame;
                break;
            }
        }
    }
}

TEST_P(Containers, ExactCountsNamesAndACleanLeave) {
    ContainedFixture target("alloc_all-O2-nofp-pie", GetParam().container);
    const TargetSnapshot before = take_snapshot(target.pid());
    Memleax memleax(command_for(target));
    memleax.wait_until_watching();
    const FixtureAnswer answer = target.fixture().go();
    memleax.process().close_input(); // SIGINT would go to nsenter
    const auto result = memleax.finish();
    const TargetSnapshot after = take_snapshot(target.pid());
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, after, Meanwhile::worked), IsEmpty());
    const auto report = result.json();
    expect_truth(report, answer);
    expect_source_lines(report);
    EXPECT_EQ(target.fixture().quit(), 0) << target.fixture().process().errors();
}

INSTANTIATE_TEST_SUITE_P(
    Kinds, Containers,
    ::testing::Values(Case{"user_mount_pid", {kAll}},
                      Case{"debug_file_by_build_id", {kAll, false, Container::Debug::by_build_id}},
                      Case{"number_inside", {kAll}, Watcher::ns_pid},
                      Case{"rootless", {kAll, true}, Watcher::nobody},
                      Case{"rootless_seen_by_root", {kAll, true}},
                      Case{"mount_pid_only", {{"--mount", "--pid", "--fork", "--kill-child"}}},
                      Case{"ephemeral_container",
                           {{"--mount", "--pid", "--fork", "--kill-child"}},
                           Watcher::beside},
                      Case{"chroot", {{}}, Watcher::nobody}, Case{"chroot_seen_by_root", {{}}}),
    [](const auto& instance) { return instance.param.name; });

TEST(NsPid, ThereIsNoSuchProcess) {
    const Container container{kAll};
    if (!why_not(container).empty()) {
        GTEST_SKIP() << why_not(container);
    }
    ContainedFixture target("alloc_all-O2-nofp-pie", container);
    Memleax memleax({"--ns-pid", "99999", std::to_string(target.init())});
    const auto result = memleax.finish();
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr(fmt::format(
                                   "there is no process 99999 in the PID namespace of process {} "
                                   "(enter_root)",
                                   target.init())));
    EXPECT_EQ(target.fixture().quit(), 0);
}

/// One that is not asked for by its number inside, although it has the same there.
TEST(NsPid, IsNotTakenForOurs) {
    Fixture fixture("alloc_all-O2-nofp-pie");
    const std::string pid = std::to_string(fixture.pid());
    Memleax memleax({"-n", "--ns-pid", pid, std::to_string(getpid())});
    EXPECT_THAT(memleax.wait_until_watching(), HasSubstr("watching " + pid));
    EXPECT_EQ(memleax.interrupt_and_finish().status, 0);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(NsPid, ProcOfAnotherNamespaceIsNotBelieved) {
    const CommandLine command{
        {"/usr/bin/unshare", "--user", "--map-root-user", "--pid", "--fork", MEMLEAX_PROGRAM, "1"}};
    if (!why_not({kAll}).empty()) {
        GTEST_SKIP() << why_not({kAll});
    }
    Memleax memleax(command);
    const auto result = memleax.finish();
    EXPECT_NE(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr("/proc is that of another PID namespace"));
}

} // namespace
} // namespace memleax::testing
