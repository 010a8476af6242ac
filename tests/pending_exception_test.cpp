// SPDX-License-Identifier: GPL-3.0-or-later
// A thread that is stopped for us just after its own instruction has raised an exception, so that
// the exception's signal is pending in a stop that is about something else. On its own this
// happens once in some thousand visits; here the thread has sent itself such a signal, blocked, and
// is stopped when we take it out of its mask.
#include <csignal>
#include <functional>
#include <thread>

#include <gtest/gtest.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "leaks_support.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "memleax/target/target.hpp"

namespace memleax::testing {
namespace {

class PendingException : public ::testing::Test {
  protected:
    /// In a thread of its own, with whose end the fixture is let go of.
    static void trace(const std::function<void()>& test) { std::thread(test).join(); }
    /// The thread is in an interrupt's stop, of which nobody has been told yet.
    void stop_with_exception() {
        auto seized = Target::seize(tracer_, tid());
        ASSERT_TRUE(seized) << seized.error().message();
        target_ = std::move(*seized);
        ASSERT_EQ(ptrace(PTRACE_INTERRUPT, fixture_.pid(), nullptr, nullptr), 0);
        siginfo_t stop{};
        ASSERT_EQ(
            waitid(P_PID, static_cast<id_t>(fixture_.pid()), &stop, WSTOPPED | WNOWAIT | __WALL),
            0);
        EXPECT_FALSE(StoppedThread(tid()).has_pending_exception())
            << "blocked, so it stays pending";
        const auto mask = StoppedThread(tid()).signal_mask();
        ASSERT_TRUE(mask);
        StoppedThread(tid()).set_signal_mask(*mask & ~signal_bit(SIGSEGV));
        EXPECT_TRUE(StoppedThread(tid()).has_pending_exception());
    }
    /// In the stop of its exception, with what the kernel said of it.
    void expect_in_its_stop() {
        siginfo_t info{};
        ASSERT_EQ(ptrace(PTRACE_GETSIGINFO, fixture_.pid(), nullptr, &info), 0);
        EXPECT_EQ(info.si_signo, SIGSEGV);
        EXPECT_EQ(info.si_code, SEGV_ACCERR);
        EXPECT_EQ(reinterpret_cast<std::uintptr_t>(info.si_addr), 0x1230U);
    }
    void expect_own_pid() {
        const auto result = target_->system_call(tid(), SYS_getpid, {});
        ASSERT_TRUE(result) << result.error().message();
        EXPECT_EQ(*result, fixture_.pid());
    }
    StopEvent next_event() {
        auto event = target_->next_event(Target::Wait::block);
        return event ? *event : StopEvent();
    }
    [[nodiscard]] Tid tid() const { return Tid(fixture_.pid()); }
    [[nodiscard]] Target& target() { return *target_; }

  private:
    Fixture fixture_{"pending_signals"};
    Tracer tracer_{nullptr};
    std::unique_ptr<Target> target_;
};

TEST_F(PendingException, IsWhatAThreadIsStoppedForInTheEnd) {
    trace([this] {
        ASSERT_NO_FATAL_FAILURE(stop_with_exception());
        ASSERT_TRUE(target().stop_and_defer(tid()));
        expect_in_its_stop();
        expect_own_pid();
        EXPECT_TRUE(std::holds_alternative<SignalStop>(next_event()));
        expect_in_its_stop();
    });
}

// Not the instruction of our system call has raised it.
TEST_F(PendingException, ComesAfterOurSystemCall) {
    trace([this] {
        ASSERT_NO_FATAL_FAILURE(stop_with_exception());
        ASSERT_TRUE(std::holds_alternative<QuietStop>(next_event()));
        expect_own_pid();
        target().resume(tid());
        for (StopEvent event = next_event(); !std::holds_alternative<SignalStop>(event);
             event = next_event()) {
            ASSERT_TRUE(std::holds_alternative<QuietStop>(event));
            target().resume(tid());
        }
        expect_in_its_stop();
    });
}

} // namespace
} // namespace memleax::testing
