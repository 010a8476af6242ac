// SPDX-License-Identifier: GPL-3.0-or-later
/// The kernel's page-fault events of one process's threads: opened, mapped, counted.
///
/// Two events (minor, major) for each thread and CPU, as only an event of one CPU may be inherited
/// by threads that are born later and yet have a buffer. All events of a CPU share that CPU's
/// buffer.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <absl/container/flat_hash_set.h>

#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/events/page_fault.hpp"
#include "perf_ring.hpp"

namespace memleax {

class FaultEvents {
  public:
    /// From then on faults are sampled. Error: for the user, with what to do.
    static Result<FaultEvents> open(const std::vector<Tid>& threads);
    FaultEvents(FaultEvents&&) noexcept = default;
    FaultEvents& operator=(FaultEvents&&) = delete;
    ~FaultEvents();

    [[nodiscard]] std::vector<PerfRing>& rings() { return rings_; }
    /// Is this the id of an event of major faults?
    [[nodiscard]] bool is_major(std::uint64_t event) const { return major_.contains(event); }
    /// All that the kernel has counted since open(); `lost` is 0. Nothing where children count,
    /// too (before Linux 5.13).
    [[nodiscard]] std::optional<FaultCounts> read_counts() const;
    /// Without what the kernel does on the process's behalf.
    [[nodiscard]] bool is_user_only() const { return how_.user_only; }

  private:
    FaultEvents() = default;
    /// What the kernel lets us have.
    struct How {
        bool user_only = false;   ///< perf_event_paranoid is 2, and we have no CAP_PERFMON
        bool threads_only = true; ///< inherit_thread: not before Linux 5.13
    };
    Result<void> open_all(long cpus, const std::vector<Tid>& threads, std::size_t ring_size);
    Result<void> open_on(int cpu, const std::vector<Tid>& threads, std::size_t ring_size);
    Result<int> open_one(std::uint64_t config, Tid tid, int cpu);
    Result<void> send_to_ring(int fd, std::size_t ring_size, std::optional<int>* ring_owner);

    std::vector<PerfRing> rings_; ///< one for each CPU
    std::vector<int> minor_events_;
    std::vector<int> major_events_;
    absl::flat_hash_set<std::uint64_t> major_; ///< their ids
    How how_;
    bool has_no_ring_ = false; ///< it could not be mapped
};

} // namespace memleax
