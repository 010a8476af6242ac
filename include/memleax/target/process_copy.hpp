// SPDX-License-Identifier: GPL-3.0-or-later
/// A copy of a process's memory at one moment: a child of it that never runs. The process runs on
/// at once; its first write to each page costs it a copy of that page as long as this lives.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

/// The child is made by one stopped thread of the process, by clone(2), and is traced from its
/// birth. It has no descriptors, and dies with the tracer thread (PTRACE_O_EXITKILL, ptrace(2)).
/// Should we die before it has that option, its next instructions, which are ours, end it.
///
/// Its end sends no signal to the process (kExitSignal), and is seen by those only of the process's
/// waits that ask for children of all kinds (__WALL, __WCLONE). It has to be reaped by the process:
/// reap_copies().
///
/// Should memory go out, in its control group or on the machine, it is the first that the kernel
/// kills (oom_score_adj, proc(5)): reads end early then.
///
/// Missing in it are mappings with MADV_DONTFORK; those with MADV_WIPEONFORK are zero; memory that
/// is shared is not that of the moment (madvise(2), fork(2)).
class ProcessCopy final : public MemoryReader {
  public:
    /// By which our copies are known among the children of a process: no signal at all
    /// (kernel/signal.c, do_notify_parent: valid_signal()), and none that anybody else asks for.
    static constexpr int kExitSignal = 77;

    /// check_copyable() comes before. All threads are stopped, and `mappings` are the process's.
    /// After a failure there is none left, and the process is as it was.
    static Result<std::shared_ptr<ProcessCopy>> make(Target& target,
                                                     const std::vector<Mapping>& mappings);
    /// Ends it, by the tracer thread. One that has ended any thread may let go of.
    ~ProcessCopy() override;
    ProcessCopy(const ProcessCopy&) = delete;
    ProcessCopy& operator=(const ProcessCopy&) = delete;

    [[nodiscard]] Tid pid() const { return pid_; }
    /// Several threads may read at once. By /proc/PID/mem: process_vm_readv(2) would make the copy
    /// its own page of each that it reads (since Linux 6.0; mm/gup.c, FAULT_FLAG_UNSHARE).
    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override;
    [[nodiscard]] const std::shared_ptr<RecoveryRecord>& record() const { return record_; }
    /// It gives its memory back, and reads end early. Any thread may do that, also when another
    /// process has its number.
    void kill() const;
    /// Has it been killed, and has it given its memory back? What was read before is whole if it
    /// has not. Any thread.
    [[nodiscard]] bool is_dead() const;
    /// Waits for that, for 20 s at most.
    void await_death() const;
    /// Its memory is gone; it is to be reaped. Idempotent. By the tracer thread.
    void end();

  private:
    ProcessCopy(Tid pid, std::shared_ptr<RecoveryRecord> record)
        : pid_(pid), record_(std::move(record)) {}
    Result<void> open_descriptors();

    Tid pid_;
    std::shared_ptr<RecoveryRecord> record_;
    int process_ = -1; ///< pidfd_open(2)
    int memory_ = -1;
    bool has_ended_ = false;
};

/// Copies of this process that a tracer has left, dead or not: ends them, and has one thread of the
/// process, which is stopped for that, reap them (wait4(2)). The Error says why one is left.
Result<void> reap_copies(Target& target);
/// The same of a process that is not seized, by a thread of its own.
Result<void> reap_copies(Tid pid, const std::shared_ptr<RecoveryRecord>& record);

/// While a process is being watched its Target has the copy, if there is one, and ends it at the
/// latest when it goes itself. Whoever reads it has it as well.
void keep_copy(Target& target, std::shared_ptr<ProcessCopy> copy);
/// Ends and reaps that. The Error is that of reap_copies(); it may succeed another time. One that
/// is dead takes no time, but for the thread that is to be stopped.
Result<void> end_copy(Target& target);

} // namespace memleax
