// SPDX-License-Identifier: GPL-3.0-or-later
// What the guardian says of a process that it cannot put back.
#include <csignal>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/engine/recovery.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {
namespace {

/// One that waits for a signal, and its record.
class Orphaned {
  public:
    Orphaned() : pid_(fork()) {
        if (pid_ == 0) {
            for (;;) {
                pause();
            }
        }
        record_->pid.store(pid_);
        record_->start_time = try_read_process_info(Tid(pid_)).value_or(ProcessInfo()).start_time;
    }
    Orphaned(const Orphaned&) = delete;
    Orphaned& operator=(const Orphaned&) = delete;
    ~Orphaned() {
        kill(pid_, SIGKILL);
        waitpid(pid_, nullptr, 0);
    }

    void end_by(int signal) const {
        kill(pid_, signal);
        siginfo_t info{};
        waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOWAIT);
    }
    [[nodiscard]] std::string problem() const {
        const auto restored = restore_process(record_);
        return restored ? "" : restored.error().message();
    }
    [[nodiscard]] int pid() const { return pid_; }
    [[nodiscard]] RecoveryRecord& record() const { return *record_; }

  private:
    int pid_;
    std::shared_ptr<RecoveryRecord> record_ = RecoveryFile::private_record();
};

TEST(RestoredProcess, HasEndedAndHow) {
    const Orphaned process;
    process.end_by(SIGTRAP);
    EXPECT_EQ(process.problem(),
              fmt::format("process {} has ended: killed by signal 5", process.pid()));
}

TEST(RestoredProcess, IsAnotherOneByNow) {
    const Orphaned process;
    process.end_by(SIGTRAP);
    ++process.record().start_time;
    EXPECT_EQ(process.problem(), fmt::format("process {} has ended", process.pid()));
}

TEST(RestoredProcess, HasEndedAndBeenReaped) {
    const Orphaned process;
    process.end_by(SIGTRAP);
    waitpid(process.pid(), nullptr, 0);
    EXPECT_EQ(process.problem(), fmt::format("process {} has ended", process.pid()));
}

} // namespace
} // namespace memleax
