// SPDX-License-Identifier: GPL-3.0-or-later
/// The account of page faults: by call stack, and by what they touched.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "memleax/base/types.hpp"
#include "memleax/events/page_fault.hpp"
#include "memleax/events/resident_memory.hpp"
#include "memleax/track/resident_pages.hpp"

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
    /// In the order in which they were first seen. Of files that one call stack touches there are
    /// kMostFiles; the others are one TouchedKind::other_files.
    std::vector<TouchedCount> touched;
    static constexpr std::size_t kMostFiles = 100;

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

/// The pages that faults have brought in and that nobody has given back, beside what the kernel
/// says.
struct StillThere {
    std::uint64_t pages = 0;              ///< at call stacks
    std::uint64_t own = 0;                ///< pages of FaultTotals::own
    std::uint64_t untold = 0;             ///< pages that there was no room for
    std::optional<ResidentMemory> before; ///< when the watching began; absent: not known
    std::optional<ResidentMemory> now;    ///< when it ended; absent: it has not, or not known
};

class FaultAccount {
  public:
    void on_page_faults(std::span<const PageFault> faults);
    void on_fault_counts(const FaultCounts& since_before);
    /// As EventSink has them.
    void on_mapping(const MappingEvent& event) { pages_.on_mapping(event); }
    void on_faults_told(MonotonicNs until) { pages_.on_told(until); }
    void on_code_gone(AddrRange range) { pages_.on_gone(range); }
    void on_memory_gone() { pages_.clear(); }
    void on_resident_before(MonotonicNs time, const std::optional<ResidentMemory>& memory);
    void on_resident_after(const std::optional<ResidentMemory>& memory) { after_ = memory; }

    [[nodiscard]] FaultTotals totals() const;
    /// In the order in which they were first seen. A call stack whose id is known stays where it
    /// is.
    [[nodiscard]] const std::vector<StackFaults>& stacks() const { return stacks_; }
    /// Nothing if nobody has told what was there before.
    [[nodiscard]] std::optional<StillThere> still_there() const;
    /// Pages of stacks()[number] that are still there.
    [[nodiscard]] std::uint64_t pages_of(std::size_t number) const {
        return pages_.pages_of(static_cast<ResidentPages::Owner>(number) + 1);
    }

  private:
    /// Where in StackFaults::touched each is.
    struct TouchedIndex {
        absl::flat_hash_map<std::string, std::uint32_t> files;
        absl::flat_hash_map<TouchedKind, std::uint32_t> kinds; ///< without TouchedKind::file
    };
    TouchedCount& touched_of(std::size_t stack, const PageFault& fault);

    std::vector<StackFaults> stacks_;
    std::vector<TouchedIndex> touched_;               ///< of each of stacks_
    absl::flat_hash_map<StackId, std::size_t> index_; ///< in stacks_
    FaultCounts sampled_;                             ///< with our own
    FaultCounts own_;
    FaultCounts counted_;
    ResidentPages pages_; ///< by the number of the stack, plus one; 0: our own
    std::optional<ResidentMemory> before_;
    std::optional<ResidentMemory> after_;
};

} // namespace memleax
