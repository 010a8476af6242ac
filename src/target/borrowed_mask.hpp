// SPDX-License-Identifier: GPL-3.0-or-later
/// A thread's signal mask while another one is in force for us.
#pragma once

#include <csignal>
#include <cstdint>

#include <sys/ptrace.h>

#include "exec_stop.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

/// Of a stopped thread, which has its own one back when this ends, or from the guardian.
class BorrowedMask {
  public:
    BorrowedMask(Tid tid, RecoveryRecord& record) : tid_(tid), record_(record) {
        is_known_ = ptrace(PTRACE_GETSIGMASK, tid_.value(), sizeof own_, &own_) == 0;
        if (is_known_) {
            record_.borrowed.mask = own_;
            record_.borrowed.lent_mask = own_;
            record_.borrowed.tid_of_mask.store(tid_.value());
        }
    }
    ~BorrowedMask() {
        if (is_known_ &&
            !is_in_exec_stop(tid_)) { // the new program has the mask of who executed it
            ptrace(PTRACE_SETSIGMASK, tid_.value(), sizeof own_, &own_);
        }
        record_.borrowed.tid_of_mask.store(0);
    }
    BorrowedMask(const BorrowedMask&) = delete;
    BorrowedMask& operator=(const BorrowedMask&) = delete;

    /// The thread's, as the kernel's sigset_t; 0 if it is gone.
    [[nodiscard]] std::uint64_t own() const { return own_; }
    void set(std::uint64_t blocked) {
        record_.borrowed.lent_mask = blocked & ~kNever;
        ptrace(PTRACE_SETSIGMASK, tid_.value(), sizeof blocked, &blocked);
    }
    /// For a thread that may have run, and whose mask may be another one since.
    void give_back_if_in_force() {
        std::uint64_t now = 0;
        is_known_ = is_known_ && ptrace(PTRACE_GETSIGMASK, tid_.value(), sizeof now, &now) == 0 &&
                    now == record_.borrowed.lent_mask;
    }

  private:
    static constexpr std::uint64_t kNever = signal_bit(SIGKILL) | signal_bit(SIGSTOP);

    Tid tid_;
    RecoveryRecord& record_;
    std::uint64_t own_ = 0;
    bool is_known_ = false;
};

} // namespace memleax
