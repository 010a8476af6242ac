// SPDX-License-Identifier: GPL-3.0-or-later
// What cannot be watched: one clear line on stderr, status 1, and nothing changed.
#include <csignal>
#include <cstdlib>
#include <fstream>
#include <optional>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "build_paths.hpp"
#include "elf_support.hpp"
#include "memleax/elf/elf_image.hpp"
#include "memleax/proc/process_info.hpp"
#include "process_support.hpp"

namespace memleax::testing {
namespace {

/// Runs memleax to its end and expects one line on stderr that contains `text`.
void expect_refusal(const std::vector<std::string>& arguments, const std::string& text) {
    Memleax memleax(arguments);
    const auto result = memleax.finish();
    EXPECT_TRUE(WIFEXITED(result.status) && WEXITSTATUS(result.status) == 1) << result.status;
    EXPECT_EQ(std::count(result.errors.begin(), result.errors.end(), '\n'), 1) << result.errors;
    EXPECT_NE(result.errors.find(text), std::string::npos) << result.errors;
    EXPECT_EQ(result.output, "");
}

std::string tracer_line(pid_t pid) {
    std::ifstream status("/proc/" + std::to_string(pid) + "/status");
    for (std::string line; std::getline(status, line);) {
        if (line.starts_with("TracerPid:")) {
            return line;
        }
    }
    return "";
}

TEST(BadTarget, NoSuchProcess) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    waitpid(child, nullptr, 0);
    expect_refusal({std::to_string(child)}, "no such process: " + std::to_string(child));
}

TEST(BadTarget, MemleaxItself) {
    // A shell that becomes memleax keeps its number.
    ChildProcess shell({"/bin/sh", "-c", std::string("exec ") + MEMLEAX_PROGRAM + " $$"});
    const int status = shell.wait_for_end();
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_NE(shell.errors().find("that is memleax itself"), std::string::npos) << shell.errors();
}

TEST(BadTarget, KernelThread) {
    const auto kthreadd = try_read_process_info(Tid(2));
    if (!kthreadd || !kthreadd->kernel_thread) {
        GTEST_SKIP() << "no kernel thread is visible in this pid namespace";
    }
    expect_refusal({"2"}, "it is a kernel thread");
}

TEST(BadTarget, Zombie) {
    const pid_t child = fork();
    if (child == 0) {
        _exit(0);
    }
    siginfo_t info{};
    waitid(P_PID, static_cast<id_t>(child), &info, WEXITED | WNOWAIT); // dead, but not reaped
    expect_refusal({std::to_string(child)}, "is a zombie");
    waitpid(child, nullptr, 0);
}

TEST(BadTarget, AThreadOfAProcess) {
    Fixture fixture("threads16");
    pid_t other = 0;
    for (const Tid tid : list_threads(Tid(fixture.pid()))) {
        if (tid.value() != fixture.pid()) {
            other = tid.value();
        }
    }
    if (other == 0) {
        GTEST_SKIP() << "the fixture has no second thread yet";
    }
    expect_refusal({std::to_string(other)}, "it is a thread of process");
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(BadTarget, TracedAlready) {
    Fixture fixture("cross_thread_free");
    ASSERT_EQ(ptrace(PTRACE_SEIZE, fixture.pid(), 0, 0), 0);
    const std::string before = tracer_line(fixture.pid());
    expect_refusal({std::to_string(fixture.pid())},
                   "it is traced by process " + std::to_string(getpid()));
    EXPECT_EQ(tracer_line(fixture.pid()), before);
    ASSERT_EQ(ptrace(PTRACE_INTERRUPT, fixture.pid(), 0, 0), 0);
    ASSERT_EQ(waitpid(fixture.pid(), nullptr, __WALL), fixture.pid());
    ptrace(PTRACE_DETACH, fixture.pid(), 0, 0);
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(BadTarget, AnotherUsersProcess) {
    if (geteuid() != 0) {
        GTEST_SKIP() << "only root can become another user";
    }
    Fixture fixture("cross_thread_free");
    ChildProcess other({"/usr/bin/setpriv", "--reuid=65534", "--regid=65534", "--clear-groups",
                        "/bin/sh", "-c", std::string("cd /; exec \"$0\" \"$1\""), MEMLEAX_PROGRAM,
                        std::to_string(fixture.pid())});
    const int status = other.wait_for_end();
    if (WEXITSTATUS(status) == 126 || WEXITSTATUS(status) == 127) {
        GTEST_SKIP() << "the program's folder is not open to others: " << other.errors();
    }
    EXPECT_EQ(WEXITSTATUS(status), 1);
    EXPECT_NE(other.errors().find("it belongs to user id 0"), std::string::npos) << other.errors();
    EXPECT_EQ(tracer_line(fixture.pid()), "TracerPid:\t0");
    EXPECT_EQ(fixture.quit(), 0);
}

// The core is to be whole. A process is found while it dumps, but the machine may stop us
// meanwhile.
TEST(BadTarget, WhatDumpsItsCore) {
    constexpr std::size_t kBytes = std::size_t{64} << 20U;
    constexpr std::size_t kLine = 64;
    const test::TemporaryFolder folder;
    bool was_refused = false;
    for (int i = 0; i < 20 && !was_refused; ++i) {
        const pid_t child = fork();
        if (child == 0) {
            rlimit limit{};
            getrlimit(RLIMIT_CORE, &limit);
            limit.rlim_cur = limit.rlim_max;
            auto* const memory = static_cast<volatile char*>(std::malloc(kBytes));
            for (std::size_t at = 0; at < kBytes; at += kLine) {
                memory[at] = 1;
            }
            if (setrlimit(RLIMIT_CORE, &limit) == 0 && chdir(folder.file("").c_str()) == 0) {
                std::abort();
            }
            _exit(1);
        }
        std::optional<ProcessInfo> info;
        do {
            info = try_read_process_info(Tid(child));
        } while (info && !info->dumps_core && !info->has_ended());
        const auto watchable = check_watchable(Tid(child));
        was_refused = !watchable && watchable.error().message().ends_with("it is dumping its core");
        int status = 0;
        ASSERT_EQ(waitpid(child, &status, 0), child);
        if (!WIFSIGNALED(status) || !WCOREDUMP(status)) {
            GTEST_SKIP() << "no core can be had here";
        }
    }
    EXPECT_TRUE(was_refused);
}

TEST(BadTarget, ForbiddenByYama) {
    // The setting belongs to the whole machine; the words are what can be tested.
    EXPECT_EQ(yama_advice(0), "");
    EXPECT_NE(yama_advice(1).find("ptrace_scope = 1"), std::string::npos);
    EXPECT_NE(yama_advice(2).find("CAP_SYS_PTRACE"), std::string::npos);
    EXPECT_NE(yama_advice(3).find("until the next reboot"), std::string::npos);
}

TEST(BadTarget, NoAllocator) {
    ChildProcess target({fixture_path("no_allocator")});
    ASSERT_TRUE(target.read_line()); // it runs
    expect_refusal({std::to_string(target.pid())}, "no allocator found");
    EXPECT_EQ(tracer_line(target.pid()), "TracerPid:\t0");
    target.signal(SIGKILL);
    target.wait_for_end();
}

// Its allocator has no name. The debug file that the user names may be another program's.
TEST(BadTarget, StrippedStaticProgram) {
    const test::TemporaryFolder folder;
    test::copy_file(fixture_path("threads16-static-stripped"), folder.file("program"));
    Fixture fixture(CommandLine{{folder.file("program")}});
    const std::string pid = std::to_string(fixture.pid());
    const auto image = ElfImage::open(folder.file("program"));
    ASSERT_TRUE(image);
    const std::string advice = "from the debug file with build-id " + (*image)->build_id();
    expect_refusal({pid}, advice);
    expect_refusal({"-d", fixture_path("libstripped_plugin.so.debug"), pid}, advice);
    EXPECT_EQ(tracer_line(fixture.pid()), "TracerPid:\t0");
    EXPECT_THAT(fixture.go().failures, ::testing::IsEmpty());
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(BadTarget, OutputIntoAMissingFolder) {
    Fixture fixture("cross_thread_free");
    expect_refusal({"-o", "/nonexistent/report", std::to_string(fixture.pid())},
                   "cannot write /nonexistent/report: No such file or directory");
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(BadTarget, UnusableDebugFile) {
    Fixture fixture("cross_thread_free");
    expect_refusal({"-d", "/nonexistent/debug", std::to_string(fixture.pid())},
                   "/nonexistent/debug");
    expect_refusal({"-d", "/etc/passwd", std::to_string(fixture.pid())}, "/etc/passwd");
    EXPECT_EQ(fixture.quit(), 0);
}

TEST(BadTarget, ACommandThatCannotBeRun) {
    expect_refusal({"--", "/nonexistent/program"}, "cannot run /nonexistent/program");
}

} // namespace
} // namespace memleax::testing
