// SPDX-License-Identifier: GPL-3.0-or-later
/// When threads of the target stand still for us.
#pragma once

#include <sys/resource.h>

namespace memleax {

/// Lets this thread run before others, if we may (root), for as long as it lives. While we attach
/// and leave, threads of the target stand still for us; and where a hundred of them compute, we
/// would be the hundred and first. Not while we watch: polling for stops would take their CPU.
class Urgently {
  public:
    Urgently() : before_(getpriority(PRIO_PROCESS, 0)) {
        constexpr int kHighest = -20;
        setpriority(PRIO_PROCESS, 0, kHighest); // of the calling thread, on Linux
    }
    ~Urgently() { setpriority(PRIO_PROCESS, 0, before_); }
    Urgently(const Urgently&) = delete;
    Urgently& operator=(const Urgently&) = delete;

  private:
    int before_;
};

} // namespace memleax
