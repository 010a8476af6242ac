// SPDX-License-Identifier: GPL-3.0-or-later
/// What SIGTRAP means in the target, kept as it is while our breakpoints raise it.
#pragma once

#include <array>
#include <cstddef>
#include <optional>

#include <absl/container/flat_hash_map.h>

#include "memleax/error.hpp"
#include "memleax/target.hpp"
#include "memleax/types.hpp"

namespace memleax {

/// A breakpoint instruction in a thread that blocks SIGTRAP, or in a process that ignores it, makes
/// the kernel unblock the signal in that thread and set the process's disposition to the default,
/// before the tracer sees anything (kernel/signal.c, force_sig_info_to_task). This puts both back
/// after each such hit. A thread is known to block
/// SIGTRAP as long as it has the mask that it had when we came, or that its creator had; one that
/// begins to block it later is not known to us.
class TrapSignal {
  public:
    explicit TrapSignal(Target& target) : target_(target) {}

    /// Looks at all threads, before the first breakpoint is put in. `worker` is a stopped thread.
    Result<void> remember(Tid worker);
    /// A stopped thread has executed a breakpoint of ours. Costs nothing where nobody blocks
    /// SIGTRAP.
    void after_hit(Tid tid) {
        if (ignored_ || !blocking_.empty()) {
            put_back(tid);
        }
    }
    /// When the breakpoints are out: the disposition once more, as a hit in a thread that was not
    /// known to block SIGTRAP has reset it, too.
    void restore(Tid worker);
    void on_birth(Tid parent, Tid child);
    void on_thread_gone(Tid tid) { blocking_.erase(tid); }

  private:
    /// The kernel's struct sigaction: handler, flags, restorer and a mask of 64 signals, alike on
    /// all our CPUs. Opaque to us.
    using Disposition = std::array<std::byte, 32>;

    void put_back(Tid tid);
    Result<void> exchange(Tid worker, const Disposition* set, Disposition* get);

    Target& target_;
    absl::flat_hash_map<Tid, std::uint64_t> blocking_; ///< and their masks
    std::optional<Disposition> disposition_;           ///< if it is not the default
    bool ignored_ = false;
};

} // namespace memleax
