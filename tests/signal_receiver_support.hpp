// SPDX-License-Identifier: GPL-3.0-or-later
/// A process whose handlers tell what they got, and in which order.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include <gtest/gtest.h>
#include <sys/types.h>

#include "memleax/base/types.hpp"
#include "memleax/target/target.hpp"

namespace memleax::testing {

/// The handler of a signal with this waits for a word.
inline constexpr int kWaits = 7;

/// Told this, it executes dd(1), which ends when it is told something else.
inline constexpr char kExecute = 'x';

/// It has handlers for SIGRTMIN and SIGUSR1, and sleeps until it is told to end.
class SignalReceiver : public ::testing::Test {
  protected:
    void SetUp() override;
    void TearDown() override;
    /// On a thread of its own, which traces the process for so long.
    void trace(const std::function<void(Target&)>& test);
    void trace(const std::function<void(Target&, Tracer&)>& test);
    void send(int signal, int value) const;
    void send_to_thread(int signal, int value) const;
    void expect_stop(Target& target, int signal) const;
    void deliver(Target& target) const { target.resume(tid(), target.stop_signal(tid())); }
    void hold(Target& target) const;
    /// That a handler told: what was sent along, negative for SIGUSR1.
    [[nodiscard]] int next_value() const;
    void say_go() const { say('\0'); }
    void say(char what) const;
    /// What its handlers told, until its end.
    std::vector<int> finish();
    [[nodiscard]] pid_t pid() const { return pid_; }
    [[nodiscard]] Tid tid() const { return Tid(pid_); }

  private:
    std::array<int, 2> go_{};
    std::array<int, 2> tell_{};
    pid_t pid_ = 0;
};

} // namespace memleax::testing
