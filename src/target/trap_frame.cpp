// SPDX-License-Identifier: GPL-3.0-or-later
#include "trap_frame.hpp"

#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "memleax/proc/process_info.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

namespace {

// Frames of handlers that have returned long ago may still be there, above all those of our hits
// after the death of a memleax that was here before.
bool has_executed_breakpoint(RemoteMemory& memory, const arch::Registers& regs) {
    constexpr std::int64_t kSize = arch::kBreakpointBytes.size();
    const CodeAddr at = arch::executed_breakpoint(regs);
    std::array<std::uint8_t, arch::kBreakpointBytes.size()> code{};
    // The handler may have moved the pc behind it already.
    for (const CodeAddr place : {at, at - kSize}) {
        if (memory.try_read(place.as_data(), std::as_writable_bytes(std::span(code))) ==
                code.size() &&
            arch::is_breakpoint(code)) {
            return true;
        }
    }
    return false;
}

// Of a signal's frame on the stack of a thread with this mask. One that was sent, or that is of a
// step, has not interrupted a breakpoint, nor come to a thread that blocks it; what it brings back
// is in force now as well.
bool is_frame_of_own_trap(RemoteMemory& memory, std::span<const std::byte> frame,
                          std::uint64_t mask, const RecoveryRecord::SignalAction& action) {
    if (!arch::looks_like_signal_frame(frame)) {
        return false;
    }
    std::uint64_t before = 0;
    std::memcpy(&before, &frame[arch::kSignalFrameMaskOffset], sizeof before);
    if ((action.flags & SA_SIGINFO) == 0) { // the kernel leaves out the siginfo
        const std::uint64_t own = (action.flags & SA_NODEFER) != 0 ? 0 : kTrapBit;
        return (before & kTrapBit) == 0 && mask == (before | action.mask | own);
    }
    siginfo_t info{};
    std::memcpy(&info, &frame[arch::kSignalFrameInfoOffset], sizeof info);
    if (info.si_signo != SIGTRAP) {
        return false;
    }
    if (!arch::is_breakpoint_signal_code(info.si_code)) {
        return (before & kTrapBit) == 0 && (before & ~mask) == 0;
    }
    const auto interrupted = arch::registers_from_signal_frame(frame);
    return interrupted && has_executed_breakpoint(memory, *interrupted);
}

} // namespace

bool is_in_trap_handler(Target& target, Tid tid, std::uint64_t mask,
                        const RecoveryRecord::SignalAction& action) {
    const auto sp = target.stack_pointer(tid);
    if (!action.has_handler() || !sp) {
        return false;
    }
    constexpr std::size_t kMostStack = std::size_t{256} << 10;
    std::vector<std::byte> stack(kMostStack);
    stack.resize(target.memory().try_read(*sp, stack));
    constexpr std::size_t kWord = sizeof(std::uint64_t);
    for (std::size_t frame = arch::kSignalFrameReturnWord;
         frame + arch::kSignalFrameInfoOffset + sizeof(siginfo_t) <= stack.size(); frame += kWord) {
        if constexpr (arch::kSignalFrameReturnWord != 0) {
            std::uint64_t restorer = 0;
            std::memcpy(&restorer, &stack[frame - arch::kSignalFrameReturnWord], kWord);
            if (restorer != action.restorer) {
                continue;
            }
        }
        if (is_frame_of_own_trap(target.memory(), std::span(stack).subspan(frame), mask, action)) {
            return true;
        }
    }
    return false;
}

} // namespace memleax
