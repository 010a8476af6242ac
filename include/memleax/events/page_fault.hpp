// SPDX-License-Identifier: GPL-3.0-or-later
/// Page faults, as the kernel has sampled them.
#pragma once

#include <cstdint>
#include <string_view>

#include "memleax/base/types.hpp"

namespace memleax {

/// What the address of a page fault belongs to.
enum class TouchedKind : std::uint8_t {
    heap,       ///< the break's memory ("[heap]")
    stack,      ///< the faulting thread's
    anonymous,  ///< mapped, and no file's
    file,       ///< a mapped file, or a mapping of the kernel's that has a name ("[vdso]")
    unknown,    ///< it was unmapped before anybody could look
    own,        ///< ours: pages of memleax in the target, or code of ours at work
    other_files ///< of no fault, but of a count: files that are not told apart
};
/// "heap", "stack", "anonymous", "file", "unknown", "memleax", "other files"
const char* describe(TouchedKind kind);

/// One page fault that was resolved: the page is there now.
struct PageFault {
    StackId stack = kNoStack;
    bool major = false; ///< it had to wait for a disk
    TouchedKind kind = TouchedKind::unknown;
    std::string_view file; ///< its path in the target; of TouchedKind::file. Not kept.
    FileOffset offset;     ///< of the page in that file
    RemoteAddr address{};
    AddrRange huge{}; ///< the huge page that came in; empty: one of the usual size, or not looked
    MonotonicNs time{};
};

/// What the kernel has counted since it was asked before, whether or not samples of it have come.
struct FaultCounts {
    std::uint64_t minor = 0;
    std::uint64_t major = 0;
    std::uint64_t lost = 0; ///< samples for which there was no room
    bool user_only = false; ///< without the faults of system calls, which we may not see

    [[nodiscard]] std::uint64_t all() const { return minor + major; }
};

} // namespace memleax
