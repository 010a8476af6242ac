// SPDX-License-Identifier: GPL-3.0-or-later
/// The records in a perf ring buffer, of events that are opened with kSampleType: from bytes
/// (perf_event_open(2), "MMAP layout"; include/uapi/linux/perf_event.h of Linux 6.1). Whatever the
/// bytes are, nothing outside of them is read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include <linux/perf_event.h>

#include "arch.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

/// Of perf_event_attr, with sample_id_all.
inline constexpr std::uint64_t kSampleType = PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_TID |
                                             PERF_SAMPLE_TIME | PERF_SAMPLE_ADDR |
                                             PERF_SAMPLE_REGS_USER | PERF_SAMPLE_STACK_USER;

/// PERF_RECORD_SAMPLE.
struct FaultSample {
    std::uint64_t event = 0; ///< the id of the event, or of the one that it was inherited from
    Tid pid;
    Tid tid;
    MonotonicNs time;
    RemoteAddr address;
    std::optional<arch::Registers> registers; ///< absent: not of a 64-bit program
    std::span<const std::byte> stack;         ///< what could be copied, from the stack pointer on
};

/// PERF_RECORD_MMAP2: also of the break and of stacks that grow.
struct MappedSample {
    Tid pid;
    AddrRange range;
    FileOffset offset;
    bool is_accessible = false; ///< not PROT_NONE
    std::string_view path;      ///< "//anon", "[heap]", or a file's
};

/// PERF_RECORD_LOST.
struct LostSamples {
    std::uint64_t count = 0;
};

using PerfRecord = std::variant<FaultSample, MappedSample, LostSamples>;

/// The spans are of `record`, which is one record, whole. Nothing if it is of no kind that we want,
/// or is not what it says.
std::optional<PerfRecord> parse_perf_record(std::span<const std::byte> record);
/// When it was written; 0 if it is too short.
MonotonicNs perf_record_time(std::span<const std::byte> record);

} // namespace memleax
