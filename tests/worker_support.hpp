// SPDX-License-Identifier: GPL-3.0-or-later
/// Targets that work while something is done to them again and again.
#pragma once

#include <set>

#include <sys/types.h>

#include "process_support.hpp"

namespace memleax::testing {

/// A process that works when it is told to, and then says whether all was well.
class Worker {
  public:
    virtual ~Worker() = default;
    virtual pid_t pid() const = 0;
    virtual void start_working() = 0;
    virtual void stop_working() = 0;
    virtual void end() = 0;
};

/// One that speaks as fixtures do.
class SpeakingWorker : public Worker {
  public:
    /// `sleeps`: it does nothing until it is asked whether all was well.
    SpeakingWorker(const CommandLine& command, bool sleeps) : fixture_(command), sleeps_(sleeps) {}
    pid_t pid() const override { return fixture_.pid(); }
    void start_working() override;
    void stop_working() override;
    void end() override;

  private:
    Fixture fixture_;
    bool sleeps_;
};

/// The fixture malloc_race, whose threads are in malloc and free all the time.
class RacingWorker : public Worker {
  public:
    explicit RacingWorker(int threads);
    pid_t pid() const override { return fixture_.pid(); }
    void start_working() override;
    /// It has come further since.
    void stop_working() override;
    void end() override;

  private:
    Fixture fixture_;
    std::int64_t rounds_ = 0;
};

/// The processes that this one has made and not reaped.
std::set<pid_t> children_of(pid_t pid);

} // namespace memleax::testing
