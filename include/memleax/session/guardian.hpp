// SPDX-License-Identifier: GPL-3.0-or-later
/// A process that outlives us, and puts our targets back as they were when we have been killed.
#pragma once

#include <memory>
#include <optional>

#include <sys/types.h>

#include "memleax/base/error.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

/// Our end of it. The guardian is this program again (/proc/self/exe), in a session of its own,
/// under another name: neither Ctrl-C, nor a closed terminal, nor `pkill memleax` is meant for it.
/// It sleeps until the tracer thread is dead, and is woken before the kernel lets go of that
/// thread's tracees.
class Guardian {
  public:
    /// Starts one; it gets ready on its own. Not in the tracer thread, which waits for tracees
    /// only.
    static Result<std::unique_ptr<Guardian>> start();
    /// Tells it to go, and waits for that.
    ~Guardian();
    Guardian(const Guardian&) = delete;
    Guardian& operator=(const Guardian&) = delete;

    /// Entries of RecoveryFile are looked after from the return of this on, until leave_duty() or
    /// the end of the calling thread, the tracer. False if the guardian is gone, or does not
    /// answer.
    bool take_duty();
    /// By the same thread, when the targets are as they were.
    void leave_duty();
    [[nodiscard]] RecoveryFile& file() { return *file_; }

  private:
    Guardian(std::unique_ptr<RecoveryFile> file, pid_t pid, int channel)
        : file_(std::move(file)), pid_(pid), channel_(channel) {}

    std::unique_ptr<RecoveryFile> file_;
    pid_t pid_;
    int channel_;
    bool on_duty_ = false;
};

/// Was this program started to be a guardian? Then its exit status; main() does nothing else.
std::optional<int> run_as_guardian(int argc, char** argv);

} // namespace memleax
