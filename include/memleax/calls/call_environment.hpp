// SPDX-License-Identifier: GPL-3.0-or-later
/// What the meaning of a call depends on, besides its arguments: the process's code and memory.
#pragma once

#include <cstdint>
#include <optional>

#include "memleax/base/types.hpp"
#include "memleax/proc/memory.hpp"

namespace memleax {

class CallEnvironment {
  public:
    virtual ~CallEnvironment() = default;
    /// The target's, as it is now.
    virtual MemoryReader& memory() = 0;

    // Code. Each may be asked for any address; code in no module is in one of its own.
    [[nodiscard]] virtual bool in_same_module(CodeAddr a, CodeAddr b) = 0;
    [[nodiscard]] virtual bool in_main_module(CodeAddr code) = 0;
    /// The C++ runtime's, where it makes room for an exception (makes_exception).
    [[nodiscard]] virtual bool makes_exception(CodeAddr code) = 0;
    /// The allocator's, where it hands cached blocks to free() (frees_cached_blocks).
    [[nodiscard]] virtual bool frees_cached_blocks(CodeAddr code) = 0;

    // Memory.
    /// Where a variable is, that the module with this code defines.
    [[nodiscard]] virtual std::optional<RemoteAddr> find_variable(CodeAddr code,
                                                                  const char* name) = 0;
    /// The mapping that begins here; empty if none does.
    [[nodiscard]] virtual AddrRange mapping_at(RemoteAddr begin) = 0;
    /// A call is about to give pages back, whose faults are followed
    /// (TrackedMemory::still_there()).
    virtual void before_pages_go() = 0;
    /// Is this in what the heap (brk(2)) has grown by since all functions are watched? That is
    /// given to nobody without our seeing it. May be out of date by a millisecond at `now`.
    [[nodiscard]] virtual bool in_new_heap(RemoteAddr address, MonotonicNs now) = 0;
};

} // namespace memleax
