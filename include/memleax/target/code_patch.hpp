// SPDX-License-Identifier: GPL-3.0-or-later
/// Bytes of the target's code that we have replaced: how they are put there, recognised, and put
/// back, by us, by the guardian, and in a forked child's copy.
#pragma once

#include <array>
#include <cstdint>
#include <span>

#include "arch.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/remote_memory.hpp"

namespace memleax {

/// A value, which may lie in shared memory (RecoveryRecord); all zeros is none.
struct CodePatch {
    static constexpr std::size_t kMaxBytes = 8;

    CodeAddr address{};
    std::uint8_t size = 0;
    std::array<std::uint8_t, kMaxBytes> original{};
    std::array<std::uint8_t, kMaxBytes> patched{};

    /// `code` is what is there, as many bytes as a breakpoint has at least.
    static CodePatch breakpoint(CodeAddr address, std::span<const std::uint8_t> code);

    [[nodiscard]] bool empty() const { return size == 0; }
    [[nodiscard]] std::span<const std::uint8_t> original_bytes() const {
        return std::span(original).first(size);
    }
    [[nodiscard]] std::span<const std::uint8_t> patched_bytes() const {
        return std::span(patched).first(size);
    }

    /// A jump that takes the place of more than a breakpoint; `code` is what is there.
    static CodePatch jump(CodeAddr address, std::span<const std::uint8_t> code,
                          std::span<const std::uint8_t> jump);

    /// Does it replace more bytes than can be written at once? While such a one is put in or taken
    /// out, it begins with a breakpoint.
    [[nodiscard]] bool is_jump() const { return size > arch::kBreakpointBytes.size(); }
    /// Are our bytes there? Not if they have not been put in yet, if somebody else has written
    /// there, or if nothing can be read there.
    [[nodiscard]] bool is_in(const RemoteMemory& memory) const;
    /// Does the code begin with ours? Of a jump: is it complete, and not one on its way in or out?
    [[nodiscard]] bool begins_in(const RemoteMemory& memory) const;
    Result<void> put_in(RemoteMemory& memory) const;
    /// Puts the original bytes back if ours are there: true. Leaves alone what somebody else has
    /// written: false.
    Result<bool> take_out(RemoteMemory& memory) const;
};

/// No CPU executes what was in the place of code that was written before, once this has returned.
/// Threads of ours with real-time priority run on each CPU: 0.1 ms, 3 at most. False: we may not
/// have such threads, or not on each CPU, or one does not let them run.
[[nodiscard]] bool visit_all_cpus();
/// The same for all users: the kernel waits (membarrier(2), Linux 4.3), 5 to 9 ms.
Result<void> wait_for_all_cpus();
/// By the quicker way that can be gone.
Result<void> synchronize_code();

/// Makes jumps of breakpoints, at which threads may run all the time: first the bytes behind the
/// breakpoint, then the one in its place, and synchronize_code() before either, unless no thread of
/// the process runs. Nobody's pc, nor that of a signal frame, may be behind the first byte of what
/// is replaced.
Result<void> write_behind_breakpoints(std::span<const CodePatch> jumps, RemoteMemory& memory);
Result<void> write_over_breakpoints(std::span<const CodePatch> jumps, RemoteMemory& memory);
/// And the reverse: first breakpoints, then the original bytes behind them, and synchronize_code()
/// after either. Leaves alone what is none of ours. Others, than jumps, are passed over.
Result<void> put_breakpoints_on_jumps(std::span<const CodePatch> jumps, RemoteMemory& memory);
Result<void> restore_behind_breakpoints(std::span<const CodePatch> jumps, RemoteMemory& memory);
/// Both, with what has to come after each.
Result<void> make_breakpoints_of_jumps(std::span<const CodePatch> jumps, RemoteMemory& memory);

} // namespace memleax
