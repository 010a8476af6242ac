// SPDX-License-Identifier: GPL-3.0-or-later
// A process executes a program just when it is seized, and the exec waits for a thread that we have
// seized already: we reap that while we wait for the exec.
#include "../src/target/while_seizing.hpp"

#include <array>
#include <csignal>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "filter_support.hpp"
#include "forked_test_support.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax::testing {
namespace {

using ::testing::ElementsAre;

/// One with a thread that sleeps, and another one that executes cat(1) when it is told to.
class Executing {
  public:
    Executing() {
        EXPECT_EQ(pipe(input_.data()), 0);
        std::array<int, 2> begun{};
        EXPECT_EQ(pipe(begun.data()), 0);
        pid_ = fork();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test be ended
            dup2(input_[0], STDIN_FILENO);
            close(input_[1]);
            std::thread([end = begun[1]] {
                const pid_t tid = gettid();
                [[maybe_unused]] const auto written = write(end, &tid, sizeof tid);
                pause();
            }).detach();
            std::thread([] {
                char byte = 0;
                [[maybe_unused]] const auto got = read(STDIN_FILENO, &byte, 1);
                execl("/bin/cat", "cat", nullptr);
                _exit(127);
            }).join();
        }
        close(begun[1]);
        EXPECT_EQ(read(begun[0], &sleeper_, sizeof sleeper_), ssize_t{sizeof sleeper_});
        close(begun[0]);
        close(input_[0]);
    }
    Executing(const Executing&) = delete;
    Executing& operator=(const Executing&) = delete;
    ~Executing() {
        kill(pid_, SIGKILL);
        waitpid(sleeper_, nullptr, __WALL); // if it is still ours
        waitpid(pid_, nullptr, __WALL);
        close(input_[1]);
    }
    [[nodiscard]] Tid pid() const { return Tid(pid_); }
    [[nodiscard]] Tid sleeper() const { return Tid(sleeper_); }
    /// Until it waits for the sleeper to be reaped.
    void begin_to_execute() const {
        EXPECT_EQ(write(input_[1], "x", 1), 1);
        while (!try_read_process_info(sleeper()).value_or(ProcessInfo()).has_ended()) {
            std::this_thread::yield();
        }
    }

  private:
    std::array<int, 2> input_{};
    pid_t pid_ = 0;
    pid_t sleeper_ = 0;
};

bool seize(Tid tid) {
    return ptrace(PTRACE_SEIZE, tid.value(), nullptr, nullptr) == 0;
}

/// `prepare` comes when all of the process's own threads have been made.
template <typename Prepare> void expect_to_seize_in_an_exec(const Prepare& prepare) {
    const Executing process;
    ASSERT_TRUE(seize(process.sleeper()));
    process.begin_to_execute();
    prepare();
    WhileSeizing reaper(process.pid());
    reaper.add(process.sleeper());
    // The first thread is a dead one before the exec ends, and another one from then on.
    EXPECT_TRUE(seize(process.pid()) || seize(process.pid()));
    EXPECT_THAT(reaper.finish(), ElementsAre(process.sleeper()));
}

TEST(WhileSeizing, ADeadThreadIsReaped) {
    expect_to_seize_in_an_exec([] {});
}

// One that shares the memory of the process that is seized.
TEST(WhileSeizing, ADeadThreadOfAnotherProcessIsReaped) {
    const Executing process;
    ASSERT_TRUE(seize(process.sleeper()));
    process.begin_to_execute();
    WhileSeizing reaper{Tid(getpid())};
    reaper.also(process.pid());
    reaper.add(process.sleeper());
    EXPECT_TRUE(seize(process.pid()) || seize(process.pid()));
    EXPECT_THAT(reaper.finish(), ElementsAre(process.sleeper()));
}

TEST(WhileSeizing, ADeadThreadIsReapedWithoutAThreadOfOurs) {
    EXPECT_TRUE(
        in_child([] { expect_to_seize_in_an_exec([] { ASSERT_TRUE(forbid_threads()); }); }));
}

} // namespace
} // namespace memleax::testing
