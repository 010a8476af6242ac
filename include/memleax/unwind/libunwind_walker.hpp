// SPDX-License-Identifier: GPL-3.0-or-later
/// Stacks as libunwind walks them (nongnu.org, 1.6): a second opinion about our own Unwinder.
#pragma once

#include <memory>

#include "arch.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/unwind/unwound_stack.hpp"

namespace memleax {

/// libunwind's own reading of the tables and its own guesses without them, as libunwind-ptrace has
/// them. What that gets by ptrace is given to it instead: the registers of the stop, and the
/// target's memory without our breakpoints. Where a module's tables are the module map says, as the
/// path in /proc/PID/maps may be another file in our mount namespace. Nothing is cached by
/// libunwind. The tracer thread's own; not thread-safe.
class LibunwindWalker {
  public:
    /// Why this build is without libunwind; null if it has it. Without, a walk has its first frame
    /// only.
    static const char* reason_against();

    /// Both must outlive it.
    LibunwindWalker(const ModuleMap& modules, MemoryReader& memory);
    ~LibunwindWalker();
    LibunwindWalker(const LibunwindWalker&) = delete;
    LibunwindWalker& operator=(const LibunwindWalker&) = delete;

    /// As Unwinder's. `outermost` is said where a table, or a frame pointer of 0, ends the stack,
    /// not where libunwind gives up.
    void unwind(const arch::Registers& regs, unsigned limit, UnwoundStack* out);
    /// libunwind begins at the call, as an allocator may have no tables (musl's).
    void unwind_at_entry(const arch::Registers& regs, unsigned limit, UnwoundStack* out);
    /// See Unwinder. libunwind 1.6 takes no signature off: it is off before libunwind sees the
    /// word, where the rest of it is the address of code.
    void set_signature_mask(std::uint64_t mask);
    /// What was read of modules is read again.
    void modules_changed();

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace memleax
