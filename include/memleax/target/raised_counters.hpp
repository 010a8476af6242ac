// SPDX-License-Identifier: GPL-3.0-or-later
/// The semaphores of SystemTap's probes that we have raised: 16-bit counters in the target's data,
/// each of which is lowered by as much when the target is left.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/remote_memory.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

/// Those of one address space. Others (perf, bpftrace, SystemTap) may count in them at the same
/// time, so what was there before is not written back: one is taken off.
class RaisedCounters {
  public:
    explicit RaisedCounters(Target& target) : target_(target) {}

    /// Takes over what the target's RecoveryRecord tells of, after the death of who wrote it.
    void adopt();
    /// By one, if that is not done yet. The threads may run.
    Result<void> raise(RemoteAddr address);
    /// All of them; those that somebody has set to 0 stay 0.
    void lower_all();
    /// In another process's copy of the memory, a forked child's.
    Result<void> lower_in_copy(RemoteMemory& memory) const;
    /// The memory in this range is gone.
    void forget(AddrRange range);
    /// The address space is gone.
    void forget_all() { raised_.clear(); }

  private:
    struct Raised {
        RemoteAddr address;
        std::uint16_t before = 0; ///< what was there
        std::size_t record = 0;   ///< its index in RecoveryRecord::counters
    };
    void lower(const Raised& each);

    Target& target_;
    std::vector<Raised> raised_;
};

} // namespace memleax
