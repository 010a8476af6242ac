// SPDX-License-Identifier: GPL-3.0-or-later
/// A process that dies of a signal that we have let through, and writes its core.
#pragma once

#include <optional>
#include <utility>

#include "memleax/base/types.hpp"

namespace memleax {

/// While it does, no thread may be interrupted: that wakes the one that writes the core, and the
/// kernel (6.1) leaves it empty.
class CoreDump {
  public:
    /// A thread of the process goes on with this signal, or 0.
    void on_resume(Tid tid, int signal);
    /// A thread has stopped: it lives.
    void on_stop(Tid tid) {
        if (signal_ && signal_->first == tid) {
            signal_.reset();
        }
    }
    /// Does the process dump core, as a signal that we have let through made it?
    bool is_in_progress();

  private:
    /// The last of kCoreSignals that a thread was resumed with, until that thread's next stop.
    std::optional<std::pair<Tid, int>> signal_;
};

} // namespace memleax
