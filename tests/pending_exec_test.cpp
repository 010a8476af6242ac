// SPDX-License-Identifier: GPL-3.0-or-later
// Another thread executes a program while the first one stands in a stop of ours: its id is the new
// program's then, in a stop that has not been told yet.
#include "memleax/target/pending_exec.hpp"

#include <array>
#include <csignal>
#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"

namespace memleax {
namespace {

/// Its second thread executes true(1) when it is told to; the first one sleeps.
class Executor : public ::testing::Test {
  protected:
    void SetUp() override {
        std::array<int, 2> ready{};
        ASSERT_EQ(pipe(go_.data()), 0);
        ASSERT_EQ(pipe(ready.data()), 0);
        pid_ = fork();
        if (pid_ == 0) {
            std::thread([&] {
                char byte = 0;
                (void)!write(ready[1], &byte, 1);
                (void)!read(go_[0], &byte, 1);
                execlp("true", "true", nullptr);
                _exit(1);
            }).detach();
            for (;;) {
                pause();
            }
        }
        close(ready[1]);
        char byte = 0;
        ASSERT_EQ(read(ready[0], &byte, 1), 1);
        close(ready[0]);
    }
    void TearDown() override {
        int status = -1;
        ASSERT_EQ(waitpid(pid_, &status, 0), pid_);
        EXPECT_EQ(status, 0);
        close(go_[0]);
        close(go_[1]);
    }
    /// In its hands the first thread has become the new program's.
    void trace(const std::function<void(Target&)>& test) {
        std::thread([&] {
            Tracer tracer(nullptr);
            auto target = Target::seize(tracer, tid());
            ASSERT_TRUE(target) << target.error().message();
            (*target)->interrupt(tid());
            ASSERT_TRUE((*target)->next_event(Target::Wait::block));
            ASSERT_TRUE((*target)->is_stopped(tid()));
            EXPECT_FALSE((*target)->has_executed(tid()));
            ASSERT_EQ(write(go_[1], "", 1), 1);
            await_exec();
            test(**target);
            (*target)->resume(tid());
        }).join();
    }
    void await_exec() const {
        constexpr std::int64_t kMostMs = 10'000;
        for (const Patience patience(kMostMs); !patience.is_over(); poll(nullptr, 0, 1)) {
            const auto info = try_read_process_info(tid());
            if (info && info->state == 't' && list_threads(tid()).size() == 1) {
                return;
            }
        }
        FAIL() << "it executes nothing";
    }
    void expect_exec(Target& target) const {
        const auto event = target.next_event(Target::Wait::block);
        ASSERT_TRUE(event);
        EXPECT_EQ(tid_of(*event), tid());
        EXPECT_TRUE(std::holds_alternative<ExecStop>(*event));
        EXPECT_FALSE(target.has_executed(tid())) << "it has been told of";
    }
    [[nodiscard]] Tid tid() const { return Tid(pid_); }

  private:
    std::array<int, 2> go_{};
    pid_t pid_ = 0;
};

TEST_F(Executor, IsToldOfThoughTheOldThreadWasToGoOn) {
    trace([this](Target& target) {
        target.resume(tid());
        expect_exec(target);
    });
}

TEST_F(Executor, IsLeftAloneFromItsDeferredStopOn) {
    trace([this](Target& target) {
        EXPECT_TRUE(PendingExec(target).has_happened()); // waits for it
        EXPECT_TRUE(target.has_executed(tid()));
        target.resume(tid());
        expect_exec(target);
    });
}

} // namespace
} // namespace memleax
