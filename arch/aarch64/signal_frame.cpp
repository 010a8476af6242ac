// SPDX-License-Identifier: GPL-3.0-or-later
// The frame that the kernel pushes before a signal handler runs: struct rt_sigframe in
// arch/arm64/kernel/signal.c. sp points to it when the handler begins, and again at the restorer:
//
//      sp ->  siginfo                    128 bytes
//      +128   uc_flags, uc_link          0, 0
//      +144   uc_stack, uc_sigmask, padding
//      +304   fault_address
//      +312   x0 .. x30, sp, pc, pstate
//      +592   records of further registers, first of all struct fpsimd_context
#include <array>
#include <cstring>

#include "arch.hpp"

namespace memleax::arch {
inline namespace aarch64 {

namespace {

template <class T> T object_at(std::span<const std::byte> bytes, std::size_t offset) {
    T object{};
    std::memcpy(&object, bytes.data() + offset, sizeof object);
    return object;
}
template <class T> void put(std::vector<std::uint8_t>& bytes, std::size_t offset, const T& object) {
    std::memcpy(bytes.data() + offset, &object, sizeof object);
}

constexpr std::size_t kFirstRecord = 592;
constexpr std::uint32_t kFpsimdMagic = 0x46508001;
/// struct user_fpsimd_state (arch/arm64/include/uapi/asm/ptrace.h): 32 vectors of 16 bytes, fpsr,
/// fpcr, and padding.
constexpr std::size_t kVectorBytes = std::size_t{32} * 16;
constexpr std::size_t kVectorSetBytes = kVectorBytes + 4 * sizeof(std::uint32_t);
/// sigcontext's __reserved: all of it is looked through.
constexpr std::size_t kRecordsBytes = 4096;

} // namespace

bool is_signal_return_code(std::span<const std::byte> code) {
    // __kernel_rt_sigreturn in the vDSO, and musl's restorer.
    static constexpr std::array<std::uint8_t, 8> restorer{
        0x68, 0x11, 0x80, 0xd2, // mov x8,#139    __NR_rt_sigreturn
        0x01, 0x00, 0x00, 0xd4, // svc #0
    };
    return code.size() >= restorer.size() &&
           std::memcmp(code.data(), restorer.data(), restorer.size()) == 0;
}

bool looks_like_signal_frame(std::span<const std::byte> frame) {
    constexpr std::size_t kFlagsAndLink = 128;
    return frame.size() >= kFirstRecord + sizeof kFpsimdMagic &&
           object_at<std::uint64_t>(frame, kFlagsAndLink) == 0 &&
           object_at<std::uint64_t>(frame, kFlagsAndLink + 8) == 0 &&
           object_at<std::uint32_t>(frame, kFirstRecord) == kFpsimdMagic;
}

// arch/arm64/kernel/signal.c, setup_return: x29 points to a frame record above the frame, which has
// up to some 16 KiB with SVE and SME.
bool begins_signal_handler(const Registers& regs, std::span<const std::byte> frame) {
    constexpr std::uint64_t kMostSignals = 64;
    constexpr std::uint64_t kMostFrameBytes = std::uint64_t{64} * 1024;
    const std::uint64_t record = regs.x[29];
    return regs.x[0] >= 1 && regs.x[0] <= kMostSignals && record > regs.sp + kSignalFrameSize &&
           record - regs.sp < kMostFrameBytes && looks_like_signal_frame(frame);
}

std::optional<Registers> registers_from_signal_frame(std::span<const std::byte> frame) {
    if (frame.size() < kSignalFrameSize) {
        return std::nullopt;
    }
    return object_at<Registers>(frame, kSignalFrameContextOffset);
}

// The call that it was interrupted in: the kernel has put pc and x0 back before it already.
std::vector<std::uint8_t> return_frame(const Registers& regs, std::uint64_t signal_mask,
                                       std::span<const std::byte> vector_registers,
                                       RemoteAddr /*at*/) {
    // Interrupted twice in the same call: made anew as that number, it would be none any more, as
    // rt_sigreturn forgets it (kernel/signal.c, do_no_restart_syscall: EINTR).
    constexpr std::uint64_t kRestartSyscall = 128;
    constexpr std::size_t kNumber = 8;
    if (regs.x[kNumber] == kRestartSyscall || vector_registers.size() < kVectorSetBytes) {
        return {};
    }
    constexpr std::size_t kStackFlags = 128 + 24; // with no such flags the kernel leaves the
    constexpr std::uint64_t kNone = 0xff;         // thread's sigaltstack alone
    // struct fpsimd_context: its head, fpsr and fpcr, then the vectors. A head of zeros follows.
    constexpr std::uint32_t kHeadBytes = 8;
    constexpr auto kRecordBytes = static_cast<std::uint32_t>(kHeadBytes + 8 + kVectorBytes);
    std::vector<std::uint8_t> frame(kFirstRecord + kRecordsBytes);
    put(frame, kStackFlags, kNone);
    put(frame, kSignalFrameMaskOffset, signal_mask);
    put(frame, kSignalFrameContextOffset, regs);
    put(frame, kFirstRecord, std::array{kFpsimdMagic, kRecordBytes});
    put(frame, kFirstRecord + kHeadBytes, object_at<std::uint64_t>(vector_registers, kVectorBytes));
    std::memcpy(frame.data() + kFirstRecord + kHeadBytes + 8, vector_registers.data(),
                kVectorBytes);
    return frame;
}

} // namespace aarch64
} // namespace memleax::arch
