// SPDX-License-Identifier: GPL-3.0-or-later
// Newborn processes that report themselves before their parents do, beside other stops.
#include "memleax/target/tracer.hpp"

#include <array>
#include <csignal>
#include <functional>
#include <map>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"
#include "memleax/target/thread_signals.hpp"

namespace memleax {
namespace {

/// Forks a child when it is told to. Ignores SIGUSR1.
class Forker {
  public:
    Forker() {
        EXPECT_EQ(pipe(pipe_.data()), 0);
        pid_ = fork();
        if (pid_ == 0) {
            signal(SIGUSR1, SIG_IGN);
            char byte = 0;
            while (read(pipe_[0], &byte, 1) == 1 && fork() != 0) {
            }
            for (;;) {
                pause();
            }
        }
    }
    ~Forker() {
        if (child_.value() != 0) {
            kill(child_.value(), SIGKILL);
        }
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
        close(pipe_[0]);
        close(pipe_[1]);
    }
    Forker(const Forker&) = delete;
    Forker& operator=(const Forker&) = delete;

    [[nodiscard]] Tid tid() const { return Tid(pid_); }
    /// Both have stopped, and nobody has been told.
    Tid begin_to_fork() {
        EXPECT_EQ(write(pipe_[1], "", 1), 1);
        await(tid(), 't');
        const auto children = list_children(tid(), tid());
        EXPECT_EQ(children.size(), 1U);
        if (!children.empty()) {
            child_ = children.front();
            await(child_, 't');
        }
        return child_;
    }
    static void await(Tid tid, char state) {
        constexpr std::int64_t kMostMs = 10'000;
        for (const Patience patience(kMostMs); !patience.is_over(); poll(nullptr, 0, 1)) {
            const auto info = try_read_process_info(tid);
            if (info && info->state == state) {
                return;
            }
        }
        ADD_FAILURE() << tid.value() << " is not in state " << state;
    }

  private:
    std::array<int, 2> pipe_{};
    pid_t pid_ = 0;
    Tid child_{};
};

/// Three processes, and the tracer after so many looks in vain: at each 16th or so it collects all
/// stops that wait.
class NewbornsOfATracer : public ::testing::TestWithParam<int> {
  protected:
    void trace(
        const std::function<void(Tracer&, Target& first, Target& second, Target& third)>& do_test) {
        std::thread([&] {
            Tracer tracer(nullptr);
            auto first = Target::seize(tracer, first_.tid());
            auto second = Target::seize(tracer, second_.tid());
            auto third = Target::seize(tracer, third_.tid());
            ASSERT_TRUE(first && second && third);
            for (int i = 0; i < GetParam(); ++i) {
                EXPECT_FALSE(tracer.next_stop(Tracer::Wait::poll));
            }
            do_test(tracer, **first, **second, **third);
        }).join();
    }

    Forker first_;
    Forker second_;
    Forker third_;
};

// A signal's stop is found again until its thread goes on. Told of twice, it let its thread go on
// from the next stop: a parent from its birth stop, or a thread from a breakpoint.
TEST_P(NewbornsOfATracer, DoNotMakeOthersBeToldOfTwice) {
    trace([this](Tracer& tracer, Target& first, Target& /*second*/, Target& third) {
        const Tid child = first_.begin_to_fork();
        kill(second_.tid().value(), SIGUSR1);
        Forker::await(second_.tid(), 't');
        third.interrupt(third_.tid());
        Forker::await(third_.tid(), 't');

        std::map<Tid, int> told;
        while (const auto stop = tracer.next_stop(Tracer::Wait::poll)) {
            const Tid tid = tid_of(stop->event);
            ++told[tid];
            if (std::holds_alternative<ChildStop>(stop->event)) {
                EXPECT_EQ(stop->target, &first);
                stop->target->detach(tid);
            } else {
                stop->target->resume(tid, stop->target->stop_signal(tid));
            }
        }
        const std::map<Tid, int> once{
            {first_.tid(), 1}, {second_.tid(), 1}, {third_.tid(), 1}, {child, 1}};
        EXPECT_EQ(told, once);
    });
}

TEST_P(NewbornsOfATracer, ComeBeforeTheirParentsEnd) {
    trace([this](Tracer& tracer, Target& first, Target& /*second*/, Target& /*third*/) {
        const Tid child = first_.begin_to_fork();
        EXPECT_FALSE(tracer.wait_for(child, WNOHANG)); // whose it is nobody has said
        kill(first_.tid().value(), SIGKILL);
        Forker::await(first_.tid(), 'Z');

        const auto birth = tracer.next_stop(Tracer::Wait::poll);
        ASSERT_TRUE(birth);
        EXPECT_TRUE(std::holds_alternative<ChildStop>(birth->event));
        EXPECT_EQ(tid_of(birth->event), child);
        EXPECT_EQ(birth->target, &first);
        EXPECT_TRUE(first.has_deferred()); // its end, and so it is not known to have ended
        const auto end = tracer.next_stop(Tracer::Wait::poll);
        ASSERT_TRUE(end);
        EXPECT_TRUE(std::holds_alternative<ThreadGone>(end->event));
        EXPECT_EQ(tid_of(end->event), first_.tid());
        EXPECT_FALSE(first.has_deferred());
        first.detach(child);
    });
}

TEST_P(NewbornsOfATracer, AreNotToldOfInPlaceOfTheOneThatIsWaitedFor) {
    trace([this](Tracer& tracer, Target& /*first*/, Target& /*second*/, Target& third) {
        third.interrupt(third_.tid());
        const auto in_line = tracer.wait_for(third_.tid(), 0);
        ASSERT_TRUE(in_line);
        tracer.put_off(*in_line);
        const Tid child = first_.begin_to_fork();
        EXPECT_FALSE(tracer.wait_for(child, WNOHANG));
        kill(second_.tid().value(), SIGUSR1);
        const auto stop = tracer.wait_for(second_.tid(), 0);
        ASSERT_TRUE(stop);
        EXPECT_EQ(tid_of(stop->event), second_.tid());
        EXPECT_EQ(tracer.queue().size(), 1U);
    });
}

// It is no thread of its parent's: SIGSTOP would be lost.
TEST_P(NewbornsOfATracer, GetASignalAgainThatWasTakenFromThem) {
    trace([this](Tracer& tracer, Target& first, Target& /*second*/, Target& /*third*/) {
        const Tid child = first_.begin_to_fork();
        while (const auto stop = tracer.next_stop(Tracer::Wait::poll)) {
            if (std::holds_alternative<ChildStop>(stop->event)) {
                siginfo_t info{};
                info.si_signo = SIGSTOP;
                first.signals().send_again(child, info);
                stop->target->detach(child);
            } else {
                stop->target->resume(tid_of(stop->event));
            }
        }
        Forker::await(child, 'T');
    });
}

/// Makes a thread when it is told to.
class ThreadMaker {
  public:
    ThreadMaker() {
        EXPECT_EQ(pipe(pipe_.data()), 0);
        pid_ = fork();
        if (pid_ == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL); // should the test be ended
            char byte = 0;
            [[maybe_unused]] const auto got = read(pipe_[0], &byte, 1);
            std::thread([] { pause(); }).join();
        }
    }
    ~ThreadMaker() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, __WALL);
        close(pipe_[0]);
        close(pipe_[1]);
    }
    ThreadMaker(const ThreadMaker&) = delete;
    ThreadMaker& operator=(const ThreadMaker&) = delete;

    [[nodiscard]] Tid tid() const { return Tid(pid_); }
    /// Both have stopped, and nobody has been told.
    Tid make_thread() {
        EXPECT_EQ(write(pipe_[1], "", 1), 1);
        Forker::await(tid(), 't');
        for (const Tid thread : list_threads(tid())) {
            if (thread != tid()) {
                Forker::await(thread, 't');
                return thread;
            }
        }
        ADD_FAILURE() << "no thread";
        return {};
    }

  private:
    std::array<int, 2> pipe_{};
    pid_t pid_ = 0;
};

// As of a child that has executed a program just before it was seized. It is no copy of anybody.
TEST(Tracer, LetsGoOfAThreadOfAProcessThatIsNotWatched) {
    const Forker watched;
    ThreadMaker stranger;
    std::thread([&] {
        Tracer tracer(nullptr);
        const auto target = Target::seize(tracer, watched.tid());
        ASSERT_TRUE(target);
        ASSERT_EQ(ptrace(PTRACE_SEIZE, stranger.tid().value(), nullptr, PTRACE_O_TRACECLONE), 0);
        const Tid thread = stranger.make_thread();
        EXPECT_FALSE(tracer.wait_for(thread, WNOHANG));
        EXPECT_EQ(try_read_process_info(thread).value_or(ProcessInfo()).tracer, Tid(0));
    }).join();
}

INSTANTIATE_TEST_SUITE_P(After, NewbornsOfATracer, ::testing::Values(0, 14, 15, 16));

} // namespace
} // namespace memleax
