// SPDX-License-Identifier: GPL-3.0-or-later
/// A thread's signal mask while another one is in force for us.
#pragma once

#include <cstdint>

#include <sys/ptrace.h>

#include "exec_stop.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"

namespace memleax {

/// Of a stopped thread, which has its own one back when this ends, or from the guardian.
class BorrowedMask {
  public:
    BorrowedMask(Tid tid, RecoveryRecord& record) : tid_(tid), record_(record) {
        is_known_ = ptrace(PTRACE_GETSIGMASK, tid_.value(), sizeof own_, &own_) == 0;
        if (is_known_) {
            record_.borrowed.mask = own_;
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
    void set(std::uint64_t blocked) const {
        ptrace(PTRACE_SETSIGMASK, tid_.value(), sizeof blocked, &blocked);
    }

  private:
    Tid tid_;
    RecoveryRecord& record_;
    std::uint64_t own_ = 0;
    bool is_known_ = false;
};

} // namespace memleax
