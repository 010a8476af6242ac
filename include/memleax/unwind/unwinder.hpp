// SPDX-License-Identifier: GPL-3.0-or-later
/// From a stopped thread's registers to its call stack, fast enough for every allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "arch.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/modules.hpp"
#include "memleax/unwind/rule.hpp"
#include "memleax/unwind/unwound_stack.hpp"

namespace memleax {

/// Walks stacks. The tracer thread's own; not thread-safe.
class Unwinder {
  public:
    /// Both must outlive the unwinder.
    Unwinder(const ModuleMap& modules, MemoryReader& memory);
    ~Unwinder();
    Unwinder(const Unwinder&) = delete;
    Unwinder& operator=(const Unwinder&) = delete;

    /// Walks from these registers, at any instruction, up to `limit` frames. Fails never;
    /// `out->end` tells why it ended. Reads the stack with one MemoryReader::try_read where the
    /// walk stays within what earlier walks needed.
    void unwind(const arch::Registers& regs, unsigned limit, UnwoundStack* out);

    /// The same, where the thread stands at the first instruction of a function: the caller is
    /// known without any table, and without its mapping (StackEnd::unknown_code).
    void unwind_at_entry(const arch::Registers& regs, unsigned limit, UnwoundStack* out);

    /// The same from any instruction, of a thread that runs on: `stack` are the bytes that lay at
    /// the stack pointer when it had these registers. Nothing else is read of its stack.
    void unwind_copy(const arch::Registers& regs, std::span<const std::byte> stack, unsigned limit,
                     UnwoundStack* out);

    /// The bits of a return address that are a signature (Target::signature_mask), 0 at first: no
    /// signed address gets out of here.
    void set_signature_mask(std::uint64_t mask);

    /// How the walk gets from this frame to its caller.
    [[nodiscard]] Rule rule(FrameAddress frame);
    /// Code of ours, in no module, makes calls that return to here; it keeps a frame pointer.
    void add_own_return_place(CodeAddr place);
    void forget_own_return_places();

    /// The module list changed, or what else is code: rules of what is gone must not be used.
    void modules_changed();

    struct Statistics {
        std::uint64_t walks = 0;
        std::uint64_t frames = 0;
        std::uint64_t rule_misses = 0; ///< frames whose rule had to be made from a table
        std::uint64_t slow_walks = 0;  ///< walks that needed all registers or an expression
        std::uint64_t stack_reads = 0;
    };
    [[nodiscard]] const Statistics& statistics() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

} // namespace memleax
