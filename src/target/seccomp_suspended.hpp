// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <sys/ptrace.h>

#include "memleax/base/types.hpp"
#include "memleax/proc/process_info.hpp"
#include "ptrace_options.hpp"

namespace memleax {

/// Lifts a stopped thread's seccomp filter, if it has one, for as long as this lives: the filter
/// may forbid our calls, or kill the process for them (PTRACE_O_SUSPEND_SECCOMP, Linux 4.3; needs
/// CAP_SYS_ADMIN). Whether there is one is asked only where that is refused: /proc takes longer.
class SeccompSuspended {
  public:
    explicit SeccompSuspended(Tid tid) : tid_(tid) {
        is_suspended_ = set_options(kPtraceOptions | kSuspend);
        if (!is_suspended_) {
            const auto info = try_read_process_info(tid);
            ok_ = !info || info->seccomp_mode == 0;
        }
    }
    ~SeccompSuspended() {
        if (is_suspended_) {
            set_options(kPtraceOptions);
        }
    }
    SeccompSuspended(const SeccompSuspended&) = delete;
    SeccompSuspended& operator=(const SeccompSuspended&) = delete;
    /// False: there is one, and it stays.
    [[nodiscard]] bool ok() const { return ok_; }

  private:
    static constexpr long kSuspend = 1L
                                     << 21; // <linux/ptrace.h>, which clashes with <sys/ptrace.h>

    // NOLINTNEXTLINE(readability-make-member-function-const): it changes the thread.
    bool set_options(long options) {
        return ptrace(PTRACE_SETOPTIONS, tid_.value(), nullptr, options) == 0;
    }

    Tid tid_;
    bool is_suspended_ = false;
    bool ok_ = true;
};

} // namespace memleax
