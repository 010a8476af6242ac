// SPDX-License-Identifier: GPL-3.0-or-later
// Targets that may do less than others: without room, without descriptors, behind seccomp filters,
// in other namespaces and roots. They are watched as all others are, or refused in one clear line;
// either way they are left as they were found, and go on.
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <functional>
#include <memory>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "leaks_support.hpp"
#include "snapshot_support.hpp"

namespace memleax::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;

std::vector<std::string> watch(pid_t pid) {
    return {"-F", "json", "-e", "1000", std::to_string(pid)};
}

CommandLine memleax_command(pid_t pid) {
    CommandLine command{watch(pid)};
    command.words.insert(command.words.begin(), MEMLEAX_PROGRAM);
    return command;
}

/// A round of the fixture, which runs as `pid`, is seen exactly; nothing is left behind. `start`
/// starts memleax, once it is known how the fixture was before.
void expect_watched(ChildProcess& fixture, pid_t pid, const std::function<Memleax()>& start) {
    const TargetSnapshot before = take_snapshot(pid);
    Memleax memleax = start();
    memleax.wait_until_watching();
    fixture.send("go");
    const FixtureAnswer answer = read_answer(fixture);
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(differences(before, take_snapshot(pid), Meanwhile::worked), IsEmpty());
    expect_truth(result.json(), answer);
    EXPECT_EQ(answer.truth.count("confined_block"), 1U);
}

/// memleax says why it will not, in one line; the fixture has not noticed, and works.
void expect_refusal(Fixture& fixture, const std::function<Memleax()>& start,
                    const std::string& reason) {
    const TargetSnapshot before = take_snapshot(fixture.pid());
    const auto result = start().finish();
    EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 1) << result.status;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr(reason));
    EXPECT_EQ(result.output, "");
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::idle), IsEmpty());
    const FixtureAnswer answer = fixture.go();
    EXPECT_THAT(answer.failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0) << fixture.process().errors();
}

/// Can others get at our programs, which may lie in somebody's home?
bool can_be_unprivileged() {
    const CommandLine probe = unprivileged({{MEMLEAX_PROGRAM, "--version"}});
    ChildProcess child(probe.words);
    return child.wait_for_end() == 0;
}

struct Confinement {
    std::vector<std::string> arguments; ///< of fixtures/confined.c
    bool needs_root = false;
    std::string name() const {
        std::string result = arguments.front();
        if (arguments.size() > 1 && arguments[1].front() != '/') {
            result += "_" + arguments[1];
        }
        return result;
    }
};
void PrintTo(const Confinement& confinement, std::ostream* out) {
    *out << confinement.name();
}

/// Null if the kernel is too old for this.
std::unique_ptr<Fixture> confined_if_possible(const std::vector<std::string>& arguments) {
    try {
        return std::make_unique<Fixture>("confined", arguments);
    } catch (const std::runtime_error& problem) {
        for (const std::string young : {"no_exec_gain", "dispatched"}) {
            if (std::string(problem.what()).find("cannot " + young) != std::string::npos) {
                return nullptr;
            }
        }
        throw;
    }
}

class Confined : public ::testing::TestWithParam<Confinement> {};

TEST_P(Confined, IsWatchedLikeAnyOther) {
    if (GetParam().needs_root && geteuid() != 0) {
        GTEST_SKIP() << "for root only";
    }
    const auto fixture = confined_if_possible(GetParam().arguments);
    if (fixture == nullptr) {
        GTEST_SKIP() << "this kernel cannot do that";
    }
    expect_watched(fixture->process(), fixture->pid(),
                   [&] { return Memleax(watch(fixture->pid())); });
    EXPECT_EQ(fixture->quit(), 0) << fixture->process().errors();
}

INSTANTIATE_TEST_SUITE_P(
    Ways, Confined,
    ::testing::Values(Confinement{{"nothing"}}, Confinement{{"address_space", "100000"}},
                      Confinement{{"descriptors"}}, Confinement{{"mmap_fails", "1"}, true},
                      Confinement{{"mmap_fails", "38"}, true}, Confinement{{"mmap_kills"}, true},
                      Confinement{{"strict"}, true}, Confinement{{"no_exec_gain"}},
                      Confinement{{"no_new_privs"}}, Confinement{{"undumpable"}, true},
                      Confinement{{"few_of_all"}}, Confinement{{"another_user"}, true},
                      Confinement{{"chroot", "/proc"}, true}),
    [](const auto& instance) { return instance.param.name(); });

/// In the midst of the watch, between two rounds.
class ConfinedMeanwhile : public ::testing::TestWithParam<const char*> {};

TEST_P(ConfinedMeanwhile, IsWatchedOn) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "for root only";
    }
    Fixture fixture("confined", {fmt::format("later:{}", GetParam())});
    // It has called setresuid, which glibc makes all threads call by a signal (nptl/setxid.c); they
    // may still be on their way back.
    constexpr int kSetxidSignal = 33;
    const TargetSnapshot before = take_snapshot_unblocked(fixture.pid(), kSetxidSignal);
    Memleax memleax(watch(fixture.pid()));
    memleax.wait_until_watching();
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_THAT(fixture.ask("confine").failures, IsEmpty());
    const FixtureAnswer answer = fixture.go();
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    expect_truth(result.json(), answer);
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, ConfinedMeanwhile,
                         ::testing::Values("few_of_all", "another_user", "undumpable",
                                           "no_new_privs"),
                         [](const auto& instance) { return std::string(instance.param); });

class NoRoom : public ::testing::TestWithParam<int> {};

// Not all of ours fits in: the handler has 80 KiB, one region of slots 64.
TEST_P(NoRoom, IsRefused) {
    Fixture fixture("confined", {"address_space", std::to_string(GetParam())});
    expect_refusal(
        fixture, [&] { return Memleax(watch(fixture.pid())); }, "Cannot allocate memory");
}

INSTANTIATE_TEST_SUITE_P(Kibibytes, NoRoom, ::testing::Values(0, 4, 60, 76, 80, 140));

// The first page of ours fits in, and later ones do not: what cannot be followed is said, and harms
// nobody.
TEST(LittleRoom, IsSaid) {
    Fixture fixture("confined", {"address_space", "144"});
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax memleax(watch(fixture.pid()));
    memleax.wait_until_watching();
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    const auto result = memleax.interrupt_and_finish();
    EXPECT_EQ(result.status, 0);
    EXPECT_THAT(result.errors, HasSubstr("Cannot allocate memory"));
    EXPECT_THAT(differences(before, take_snapshot(fixture.pid()), Meanwhile::worked), IsEmpty());
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

class Unprivileged : public ::testing::Test {
  protected:
    void SetUp() override {
        std::ifstream yama("/proc/sys/kernel/yama/ptrace_scope");
        int scope = 0;
        if (yama >> scope && scope != 0) {
            GTEST_SKIP() << "Yama allows ptrace of one's own children only";
        }
        if (!can_be_unprivileged()) {
            GTEST_SKIP() << "the build folder is not open to others";
        }
    }
    static CommandLine target(std::vector<std::string> arguments) {
        arguments.insert(arguments.begin(), fixture_path("confined"));
        return unprivileged({std::move(arguments)});
    }
    static Memleax memleax(const Fixture& fixture) {
        return Memleax(unprivileged(memleax_command(fixture.pid())));
    }
};

TEST_F(Unprivileged, AnOrdinaryProcessIsWatched) {
    Fixture fixture(target({"nothing"}));
    expect_watched(fixture.process(), fixture.pid(), [&] { return memleax(fixture); });
    EXPECT_EQ(fixture.quit(), 0);
}

TEST_F(Unprivileged, FiltersAreRefusedBeforeAnythingIsTouched) {
    for (const std::vector<std::string>& filter :
         {std::vector<std::string>{"mmap_fails", "1"}, {"mmap_kills"}, {"strict"}}) {
        Fixture fixture(target(filter));
        expect_refusal(
            fixture, [&] { return memleax(fixture); },
            "it has a seccomp filter, which memleax may not suspend");
    }
}

// As in a container with CAP_SYS_ADMIN: the kernel lets nobody suspend a filter who has one.
TEST(Filtered, MemleaxIsToldOfItsOwnFilter) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "for root only";
    }
    const auto filtered = [](const Fixture& fixture) {
        CommandLine command = memleax_command(fixture.pid());
        command.words.insert(command.words.begin(), fixture_path("filtered"));
        return Memleax(command);
    };
    Fixture unfiltered("confined", {"nothing"});
    expect_watched(unfiltered.process(), unfiltered.pid(), [&] { return filtered(unfiltered); });
    Fixture fixture("confined", {"mmap_kills"});
    expect_refusal(
        fixture, [&] { return filtered(fixture); }, "without a filter of its own");
}

// Nothing is done in it, and nobody waits for its system call for ever.
TEST(Dispatched, ItsOwnHandlerGetsNoneOfOurCalls) {
    const auto fixture = confined_if_possible({"dispatched"});
    if (fixture == nullptr) {
        GTEST_SKIP() << "this kernel cannot do that";
    }
    expect_refusal(
        *fixture, [&] { return Memleax(watch(fixture->pid())); },
        "has its system calls dispatched to a handler of its own");
}

TEST(Dispatched, ItsHeapIsLookedAtWithoutAFork) {
    const auto fixture = confined_if_possible({"dispatched"});
    if (fixture == nullptr) {
        GTEST_SKIP() << "this kernel cannot do that";
    }
    const TargetSnapshot before = take_snapshot(fixture->pid());
    const auto result =
        Memleax({"--leak-check", "--snapshot", "fork", std::to_string(fixture->pid())}).finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("is not forked: thread"));
    EXPECT_THAT(differences(before, take_snapshot(fixture->pid()), Meanwhile::idle), IsEmpty());
    EXPECT_THAT(fixture->go().failures, IsEmpty());
    EXPECT_EQ(fixture->quit(), 0) << fixture->process().errors();
}

TEST_F(Unprivileged, AnUndumpableProcessIsRefused) {
    Fixture fixture(target({"undumpable"}));
    expect_refusal(
        fixture, [&] { return memleax(fixture); }, "is not dumpable");
}

// The filter comes while we watch. Our pages cannot be unmapped then, nor SIGTRAP's handler put
// back; that is said, and it does no harm: the code is as it was, and the handler ends the process
// at a SIGTRAP as the default does.
TEST_F(Unprivileged, AFilterThatComesMeanwhileKeepsOurPagesAndNothingElse) {
    Fixture fixture(target({"later:mmap_kills"}));
    const TargetSnapshot before = take_snapshot(fixture.pid());
    Memleax watcher = memleax(fixture);
    watcher.wait_until_watching();
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    EXPECT_THAT(fixture.ask("confine").failures, IsEmpty());
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    const auto result = watcher.interrupt_and_finish();
    EXPECT_EQ(result.status, 0) << result.errors;
    EXPECT_THAT(result.errors, HasSubstr("could not be put back"));
    for (const auto& difference :
         differences(before, take_snapshot(fixture.pid()), Meanwhile::worked)) {
        const bool is_page = difference.starts_with("new: ") &&
                             difference.find(" r-xp 00000000 00:00 0") != std::string::npos;
        EXPECT_TRUE(is_page || difference.ends_with("SigCgt:\t0000000100000010 ")) << difference;
    }
    EXPECT_THAT(fixture.go().failures, IsEmpty());
    fixture.process().signal(SIGTRAP);
    EXPECT_EQ(WTERMSIG(fixture.process().wait_for_end()), SIGTRAP);
}

/// What unshare(1) has started with -f; without it, it has become that itself.
pid_t only_child_of(pid_t parent) {
    std::ifstream children(fmt::format("/proc/{0}/task/{0}/children", parent));
    pid_t child = parent;
    children >> child;
    return child;
}

class Namespaces : public ::testing::TestWithParam<std::string> {};

TEST_P(Namespaces, AreNoObstacle) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "for root only";
    }
    const std::string folder = ::testing::TempDir() + fmt::format("memleax-{}", getpid());
    std::filesystem::create_directory(folder);
    // The program lies where no other mount namespace finds it.
    const std::string script = fmt::format(
        "if [ -z \"$2\" ]; then mount -t tmpfs none {0} && cp \"$0\" {0}/hidden || exit; "
        "exec {0}/hidden; else exec \"$0\"; fi",
        folder);
    const bool has_mounts = GetParam().find('m') != std::string::npos;
    std::vector<std::string> command{"/usr/bin/unshare",       GetParam(), "/bin/sh", "-c", script,
                                     fixture_path("confined"), "nothing"};
    if (!has_mounts) {
        command.emplace_back("in place");
    }
    ChildProcess process(command);
    const auto line = process.read_line();
    if (line != "ready") {
        process.wait_for_end();
        std::filesystem::remove(folder);
        GTEST_SKIP() << "no such namespace can be made here: " << process.errors();
    }
    const pid_t pid = only_child_of(process.pid());
    expect_watched(process, pid, [&] { return Memleax(watch(pid)); });
    process.send("quit");
    EXPECT_EQ(process.wait_for_end(), 0) << process.errors();
    std::filesystem::remove(folder);
}

// -f: as the first process of its pid namespace, which gets no signal that it has no handler for.
INSTANTIATE_TEST_SUITE_P(Kinds, Namespaces, ::testing::Values("-m", "-pf", "-U", "-Ur", "-mpfinu"),
                         [](const auto& instance) { return instance.param.substr(1); });

/// A control group of this test's own with a limit of memory, of whichever kind the system has.
class MemoryGroup {
  public:
    explicit MemoryGroup(std::uint64_t bytes) {
        for (const auto& [root, limit] :
             {std::pair{"/sys/fs/cgroup/memory", "memory.limit_in_bytes"},
              std::pair{"/sys/fs/cgroup", "memory.max"}}) {
            const std::string folder = fmt::format("{}/memleax-test-{}", root, getpid());
            std::error_code error;
            if (!std::filesystem::create_directory(folder, error)) {
                continue;
            }
            folder_ = folder;
            if (write(limit, bytes)) {
                return;
            }
            leave_nothing();
        }
    }
    ~MemoryGroup() { leave_nothing(); }
    MemoryGroup(const MemoryGroup&) = delete;
    MemoryGroup& operator=(const MemoryGroup&) = delete;
    bool exists() const { return !folder_.empty(); }
    bool take(pid_t pid) const { return write("cgroup.procs", static_cast<std::uint64_t>(pid)); }

  private:
    bool write(const std::string& file, std::uint64_t value) const {
        std::ofstream out(folder_ + "/" + file);
        out << value << std::flush;
        return out.good();
    }
    void leave_nothing() {
        std::error_code error;
        if (!folder_.empty()) {
            std::filesystem::remove(std::exchange(folder_, ""), error);
        }
    }
    std::string folder_;
};

// What it has touched before is charged to others; what it, and we in it, touch from now on is a
// few hundred KiB.
TEST(MemoryPressure, ATightGroupIsNoObstacle) {
    MemoryGroup group(1536UL * 1024);
    if (!group.exists()) {
        GTEST_SKIP() << "no memory control group can be made here";
    }
    {
        Fixture fixture("confined");
        ASSERT_TRUE(group.take(fixture.pid()));
        expect_watched(fixture.process(), fixture.pid(),
                       [&] { return Memleax(watch(fixture.pid())); });
        EXPECT_EQ(fixture.quit(), 0);
    }
}

} // namespace
} // namespace memleax::testing
