// SPDX-License-Identifier: GPL-3.0-or-later
/// A process that executes another program while we have it in our hands.
#pragma once

#include "memleax/target/target.hpp"

namespace memleax {

/// Looks for an ExecStop that is yet to be told by Target::next_event(). From then on the process's
/// memory is another one than we know. `target` must outlive it.
class PendingExec {
  public:
    explicit PendingExec(Target& target) : target_(target) {}

    /// Is one of this thread, or vfork-like child, waiting to be told?
    [[nodiscard]] bool is_deferred(Tid tid) const;
    /// The same of the process; asks the kernel first.
    [[nodiscard]] bool has_happened();
    /// After a stopped thread has vanished: only the end of the process does that, or a thread that
    /// executes a program. Waits until it is clear which, ten seconds at most; what happened
    /// meanwhile is told by next_event() all the same.
    [[nodiscard]] bool happens_instead_of_end();

  private:
    Target& target_;
};

} // namespace memleax
