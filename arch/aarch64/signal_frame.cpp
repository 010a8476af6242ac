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
#include <algorithm>
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

/// struct sve_context for a register set of kDiscardedRegsets, which has the same registers in the
/// same order: z0 to z31, p0 to p15, FFR. Empty if the set is not understood.
std::vector<std::uint8_t> scalable_record(RegsetBytes discarded) {
    constexpr std::size_t kHeaderBytes = 16; // the set's, and the record's
    constexpr std::size_t kLengthAt = 8;     // of a vector in bytes; in both
    constexpr std::size_t kRecordFlagsAt = 10;
    constexpr std::size_t kBitsForByte = 8;
    constexpr std::uint32_t kMagic = 0x53564501;
    constexpr std::uint16_t kStreaming = 1; // SVE_SIG_FLAG_SM
    constexpr std::size_t kAlignment = 16;
    if (discarded.bytes.size() < kHeaderBytes) {
        return {};
    }
    const auto length = object_at<std::uint16_t>(discarded.bytes, kLengthAt);
    const std::size_t bytes = std::size_t{32} * length + std::size_t{17} * length / kBitsForByte;
    if (length == 0 || discarded.bytes.size() < kHeaderBytes + bytes) {
        return {};
    }
    std::vector<std::uint8_t> record((kHeaderBytes + bytes + kAlignment - 1) & ~(kAlignment - 1));
    put(record, 0, std::array{kMagic, static_cast<std::uint32_t>(record.size())});
    put(record, kLengthAt, length);
    put(record, kRecordFlagsAt, discarded.set == kStreamingRegset ? kStreaming : std::uint16_t{0});
    std::memcpy(record.data() + kHeaderBytes, discarded.bytes.data() + kHeaderBytes, bytes);
    return record;
}

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
                                       RemoteAddr /*at*/, RegsetBytes discarded) {
    // Interrupted twice in the same call: made anew as that number, it would be none any more, as
    // rt_sigreturn forgets it (kernel/signal.c, do_no_restart_syscall: EINTR).
    constexpr std::uint64_t kRestartSyscall = 128;
    constexpr std::size_t kNumber = 8;
    if (regs.x[kNumber] == kRestartSyscall || vector_registers.size() < kVectorSetBytes) {
        return {};
    }
    constexpr std::size_t kStackFlags = 128 + 24; // with no such flags the kernel leaves the
    constexpr std::uint64_t kNone = 0xff;         // thread's sigaltstack alone
    // struct fpsimd_context: its head, fpsr and fpcr, then the vectors. A head of zeros ends the
    // records. There is room for SVE's with vectors of up to 64 bytes; longer ones would need a
    // struct extra_context.
    constexpr std::uint32_t kHeadBytes = 8;
    constexpr auto kRecordBytes = static_cast<std::uint32_t>(kHeadBytes + 8 + kVectorBytes);
    std::vector<std::uint8_t> scalable;
    if (discarded.set != 0) {
        scalable = scalable_record(discarded);
        if (scalable.empty() || kRecordBytes + scalable.size() + kHeadBytes > kRecordsBytes) {
            return {};
        }
    }
    std::vector<std::uint8_t> frame(kFirstRecord + kRecordsBytes);
    put(frame, kStackFlags, kNone);
    put(frame, kSignalFrameMaskOffset, signal_mask);
    put(frame, kSignalFrameContextOffset, regs);
    put(frame, kFirstRecord, std::array{kFpsimdMagic, kRecordBytes});
    put(frame, kFirstRecord + kHeadBytes, object_at<std::uint64_t>(vector_registers, kVectorBytes));
    std::memcpy(frame.data() + kFirstRecord + kHeadBytes + 8, vector_registers.data(),
                kVectorBytes);
    std::copy(scalable.begin(), scalable.end(), frame.begin() + kFirstRecord + kRecordBytes);
    return frame;
}

} // namespace aarch64
} // namespace memleax::arch
