// SPDX-License-Identifier: GPL-3.0-or-later
/// The account of page faults: by call stack, and by what they touched.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/page_fault.hpp"

namespace memleax {

/// What the faults of one call stack have touched of one kind, or of one file.
struct TouchedCount {
    TouchedKind kind{};
    std::string file; ///< of TouchedKind::file
    std::uint64_t minor = 0;
    std::uint64_t major = 0;
    /// The part of the file in which the pages lie.
    FileOffset begin;
    FileOffset end;

    [[nodiscard]] std::uint64_t all() const { return minor + major; }
};

struct StackFaults {
    StackId stack;
    std::uint64_t minor = 0;
    std::uint64_t major = 0;
    std::vector<TouchedCount> touched; ///< in the order in which they were first seen

    [[nodiscard]] std::uint64_t all() const { return minor + major; }
};

/// Of all call stacks; by the kernel's counters where samples were lost.
struct FaultTotals {
    std::uint64_t minor = 0; ///< without `own`
    std::uint64_t major = 0;
    std::uint64_t lost = 0; ///< of these, so many are at no call stack
    std::uint64_t own = 0;  ///< of pages of memleax in the process, and of its code there
    bool user_only = false; ///< see FaultCounts
};

class FaultAccount {
  public:
    void on_page_faults(std::span<const PageFault> faults);
    void on_fault_counts(const FaultCounts& since_before);

    [[nodiscard]] FaultTotals totals() const;
    /// In the order in which they were first seen. A call stack whose id is known stays where it
    /// is.
    [[nodiscard]] const std::vector<StackFaults>& stacks() const { return stacks_; }

  private:
    std::vector<StackFaults> stacks_;
    absl::flat_hash_map<StackId, std::size_t> index_; ///< in stacks_
    FaultCounts sampled_;                             ///< with our own
    FaultCounts own_;
    FaultCounts counted_;
};

} // namespace memleax
