// SPDX-License-Identifier: GPL-3.0-or-later
#include "signal_receiver_support.hpp"

#include <csignal>
#include <thread>

#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/target/thread_signals.hpp"

namespace memleax::testing {

namespace {

int told;
int may_go;

/// What was sent along with it; negative for one that does not queue.
void tell(int signal, siginfo_t* info, void* /*context*/) {
    const int value = signal == SIGUSR1 ? -info->si_value.sival_int : info->si_value.sival_int;
    (void)!write(told, &value, sizeof value);
    if (value == kWaits) {
        char byte = 0;
        (void)!read(may_go, &byte, 1);
    }
}

[[noreturn]] void be_receiver(int go, int tell_to) {
    told = tell_to;
    may_go = go;
    struct sigaction action {};
    action.sa_sigaction = tell;
    action.sa_flags = SA_SIGINFO | SA_RESTART;
    sigaction(SIGRTMIN, &action, nullptr);
    sigaction(SIGUSR1, &action, nullptr);
    char byte = 0;
    (void)!write(tell_to, &byte, 1);
    (void)!read(go, &byte, 1);
    if (byte == kExecute) {
        dup2(go, STDIN_FILENO);
        execlp("dd", "dd", "bs=1", "count=1", "of=/dev/null", "status=none", nullptr);
    }
    _exit(0);
}

} // namespace

void SignalReceiver::SetUp() {
    ASSERT_EQ(pipe(go_.data()), 0);
    ASSERT_EQ(pipe(tell_.data()), 0);
    pid_ = fork();
    if (pid_ == 0) {
        be_receiver(go_[0], tell_[1]);
    }
    close(tell_[1]);
    char byte = 0;
    ASSERT_EQ(read(tell_[0], &byte, 1), 1);
}

void SignalReceiver::TearDown() {
    for (const int fd : {go_[0], go_[1], tell_[0]}) {
        close(fd);
    }
}

void SignalReceiver::trace(const std::function<void(Target&)>& test) {
    trace([&test](Target& target, Tracer& /*tracer*/) { test(target); });
}

void SignalReceiver::trace(const std::function<void(Target&, Tracer&)>& test) {
    std::thread([&] {
        Tracer tracer(nullptr);
        auto target = Target::seize(tracer, tid());
        ASSERT_TRUE(target) << target.error().message();
        test(**target, tracer);
    }).join();
}

void SignalReceiver::send(int signal, int value) const {
    sigval with{};
    with.sival_int = value;
    ASSERT_EQ(sigqueue(pid_, signal, with), 0);
}

void SignalReceiver::send_to_thread(int signal, int value) const {
    siginfo_t info{};
    info.si_signo = signal;
    info.si_code = SI_QUEUE;
    info.si_value.sival_int = value;
    ASSERT_EQ(syscall(SYS_rt_tgsigqueueinfo, pid_, pid_, signal, &info), 0);
}

void SignalReceiver::expect_stop(Target& target, int signal) const {
    ASSERT_TRUE(target.next_event(Target::Wait::block));
    ASSERT_EQ(target.stop_signal(tid()), signal);
}

void SignalReceiver::hold(Target& target) const {
    ASSERT_TRUE(target.signals().hold(tid()));
    target.resume(tid());
}

int SignalReceiver::next_value() const {
    int value = 0;
    EXPECT_EQ(read(tell_[0], &value, sizeof value), ssize_t{sizeof value});
    return value;
}

std::vector<int> SignalReceiver::finish() {
    say_go();
    std::vector<int> values;
    for (int value = 0; read(tell_[0], &value, sizeof value) == ssize_t{sizeof value};) {
        values.push_back(value);
    }
    int status = -1;
    EXPECT_EQ(waitpid(pid_, &status, 0), pid_);
    EXPECT_EQ(status, 0);
    return values;
}

void SignalReceiver::say(char what) const {
    ASSERT_EQ(write(go_[1], &what, 1), 1);
}

} // namespace memleax::testing
