// SPDX-License-Identifier: GPL-3.0-or-later
// The frame that the kernel pushes before a signal handler runs: struct rt_sigframe in
// arch/x86/include/asm/sigframe.h. The handler's `ret` pops the first word (pretcode, the address
// of the restorer), so that at the restorer sp points to the struct ucontext:
//
//      sp ->  uc_flags, uc_link          16 bytes
//             uc_stack                   24
//      +40    r8 r9 .. r15 rdi rsi rbp rbx rdx rax rcx rsp rip eflags cs:gs:fs err ...
#include <algorithm>
#include <array>
#include <cstring>

#include <cpuid.h>

#include "arch.hpp"

namespace memleax::arch {
inline namespace x86_64 {

namespace {

/// struct sigcontext (arch/x86/include/uapi/asm/sigcontext.h), in words.
enum : std::size_t {
    R8,
    R9,
    R10,
    R11,
    R12,
    R13,
    R14,
    R15,
    DI,
    SI,
    BP,
    BX,
    DX,
    AX,
    CX,
    SP,
    IP,
    FLAGS,
    CSGSFS, ///< cs, gs, fs, ss: 16 bits each
    kRegisterWords,
    FPSTATE = 23 ///< a pointer, behind err, trapno, oldmask, cr2
};
constexpr std::size_t kGregsOffset = 40;
constexpr std::size_t kFrameWords = kSignalFrameInfoOffset / sizeof(std::uint64_t);

// The extended state of XSAVE's standard form, which both ptrace and signal frames have (Intel's
// manual, volume 1, section 13.4). In a signal frame the bytes from 464 on are the kernel's struct
// _fpx_sw_bytes; ptrace has the mask of the enabled features there.
constexpr std::size_t kSoftwareBytes = 464;
constexpr std::size_t kLegacyBytes = 512;
constexpr std::size_t kLegacyAndHeader = kLegacyBytes + 64;
constexpr std::uint32_t kMagic1 = 0x46505853; ///< FP_XSTATE_MAGIC1
constexpr std::uint32_t kMagic2 = 0x46505845; ///< FP_XSTATE_MAGIC2, behind the state
struct SoftwareBytes {
    std::uint32_t magic1;
    std::uint32_t extended_size; ///< with magic 2
    std::uint64_t features;
    std::uint32_t state_size;
    std::uint32_t padding[7];
};
static_assert(kSoftwareBytes + sizeof(SoftwareBytes) == kLegacyBytes);

/// What CPUID says of a feature's part of the state (Intel's manual, volume 1, section 13.2).
struct StatePart {
    unsigned bytes = 0;
    unsigned offset = 0;
    bool is_dynamic = false; ///< only for threads that have asked for it (XFD: AMX's tiles)
};
constexpr unsigned kFirstExtended = 2; ///< x87 and SSE are the legacy part
constexpr unsigned kFeatures = 63;

StatePart ask_state_part(unsigned feature) {
    constexpr unsigned kExtendedState = 0xd;
    constexpr unsigned kDynamic = 4;
    StatePart part;
    unsigned flags = 0;
    unsigned unused = 0;
    if (__get_cpuid_count(kExtendedState, feature, &part.bytes, &part.offset, &flags, &unused) !=
        0) {
        part.is_dynamic = (flags & kDynamic) != 0;
    }
    return part;
}

// Asked once: a hypervisor takes some microseconds for each answer.
const StatePart& state_part(unsigned feature) {
    static const auto parts = [] {
        std::array<StatePart, kFeatures> all;
        for (unsigned each = kFirstExtended; each < kFeatures; ++each) {
            all.at(each) = ask_state_part(each);
        }
        return all;
    }();
    return parts.at(feature);
}

struct StateShape {
    std::uint64_t features = 0;
    std::size_t size = kLegacyAndHeader;
};
/// Of a state as ptrace gives it, which has room for all that the machine knows: what of it a frame
/// of the thread's has. The kernel takes a larger one than it would make itself for none at all
/// (arch/x86/kernel/fpu/signal.c, check_xstate_in_sigframe).
StateShape shape_in_frame(std::span<const std::byte> state) {
    std::uint64_t in_use = 0;
    StateShape shape;
    std::memcpy(&shape.features, state.data() + kSoftwareBytes, sizeof shape.features);
    std::memcpy(&in_use, state.data() + kLegacyBytes, sizeof in_use); // XSTATE_BV
    for (unsigned feature = kFirstExtended; feature < kFeatures; ++feature) {
        const std::uint64_t bit = 1ULL << feature;
        if ((shape.features & bit) == 0) {
            continue;
        }
        const StatePart& part = state_part(feature);
        if (part.is_dynamic && (in_use & bit) == 0) {
            shape.features &= ~bit;
        } else {
            shape.size = std::max<std::size_t>(shape.size, std::size_t{part.offset} + part.bytes);
        }
    }
    return shape;
}

template <class T> void put(std::vector<std::uint8_t>& bytes, std::size_t at, const T& value) {
    std::memcpy(bytes.data() + at, &value, sizeof value);
}

/// As the kernel would do when no handler is called (arch/x86/kernel/signal.c,
/// arch_do_signal_or_restart).
Registers with_call_begun_again(Registers regs) {
    constexpr std::int64_t kRestartSys = 512; // ERESTARTSYS, -NOINTR, -NOHAND
    constexpr std::int64_t kRestartNoHand = 514;
    constexpr std::int64_t kRestartBlock = 516;
    const std::int64_t error = -system_call_result(regs);
    const bool restarts =
        (error >= kRestartSys && error <= kRestartNoHand) || error == kRestartBlock;
    if (static_cast<std::int64_t>(regs.orig_rax) >= 0 && restarts) {
        begin_system_call_again(regs, regs.rdi);
    }
    return regs;
}

} // namespace

bool is_signal_return_code(std::span<const std::byte> code) {
    static constexpr std::array<std::uint8_t, 9> restorer{
        0x48, 0xc7, 0xc0, 0x0f, 0x00, 0x00, 0x00, // mov $15,%rax    __NR_rt_sigreturn
        0x0f, 0x05,                               // syscall
    };
    // Written in C (or Go), a compiler takes the shorter form.
    static constexpr std::array<std::uint8_t, 7> short_restorer{
        0xb8, 0x0f, 0x00, 0x00, 0x00, // mov $15,%eax
        0x0f, 0x05,                   // syscall
    };
    const auto begins_with = [&](const auto& bytes) {
        return code.size() >= bytes.size() &&
               std::memcmp(code.data(), bytes.data(), bytes.size()) == 0;
    };
    return begins_with(restorer) || begins_with(short_restorer);
}

bool looks_like_signal_frame(std::span<const std::byte> /*frame*/) {
    return true; // the word before it tells
}

// arch/x86/kernel/signal_64.c, x64_setup_rt_frame: the handler's three arguments, whatever its
// flags.
bool begins_signal_handler(const Registers& regs, std::span<const std::byte> /*frame*/) {
    const std::uint64_t context = regs.rsp + kSignalFrameReturnWord;
    return regs.rdx == context && regs.rsi == context + kSignalFrameInfoOffset && regs.rax == 0;
}

std::optional<Registers> registers_from_signal_frame(std::span<const std::byte> frame) {
    if (frame.size() < kSignalFrameSize) {
        return std::nullopt;
    }
    std::uint64_t gregs[kRegisterWords];
    std::memcpy(gregs, frame.data() + kGregsOffset, sizeof(gregs));

    Registers regs{};
    regs.r8 = gregs[R8];
    regs.r9 = gregs[R9];
    regs.r10 = gregs[R10];
    regs.r11 = gregs[R11];
    regs.r12 = gregs[R12];
    regs.r13 = gregs[R13];
    regs.r14 = gregs[R14];
    regs.r15 = gregs[R15];
    regs.rdi = gregs[DI];
    regs.rsi = gregs[SI];
    regs.rbp = gregs[BP];
    regs.rbx = gregs[BX];
    regs.rdx = gregs[DX];
    regs.rax = gregs[AX];
    regs.rcx = gregs[CX];
    regs.rsp = gregs[SP];
    regs.rip = gregs[IP];
    regs.eflags = gregs[FLAGS];
    regs.cs = gregs[CSGSFS] & 0xffff;
    regs.orig_rax = static_cast<std::uint64_t>(-1);
    return regs;
}

std::vector<std::uint8_t> return_frame(const Registers& regs, std::uint64_t signal_mask,
                                       std::span<const std::byte> vector_registers, RemoteAddr at,
                                       RegsetBytes /*discarded*/) {
    // Interrupted twice in the same call: made anew as that number, it would be none any more, as
    // rt_sigreturn forgets it (kernel/signal.c, do_no_restart_syscall: EINTR).
    constexpr std::uint64_t kRestartSyscall = 219;
    if (regs.orig_rax == kRestartSyscall || vector_registers.size() < kLegacyAndHeader) {
        return {};
    }
    const auto [features, size] = shape_in_frame(vector_registers);
    if (size > vector_registers.size()) {
        return {};
    }
    const Registers own = with_call_begun_again(regs);
    // uc_flags, uc_link, uc_stack, and the signal mask as its last word. UC_FP_XSTATE,
    // UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS (arch/x86/include/uapi/asm/ucontext.h).
    constexpr std::uint64_t kFlags = 1 | 2 | 4;
    constexpr std::size_t kStackFlags = 3; // a word: with no such flags the kernel leaves
    constexpr std::uint64_t kNone = 0xff;  // the thread's sigaltstack alone
    constexpr std::uint64_t kSelector = 0xffff;
    constexpr unsigned kStackSelectorShift = 48;
    std::array<std::uint64_t, kFrameWords> words{};
    words[0] = kFlags;
    words[kStackFlags] = kNone;
    std::uint64_t* const gregs = words.data() + kGregsOffset / sizeof words[0];
    gregs[R8] = own.r8;
    gregs[R9] = own.r9;
    gregs[R10] = own.r10;
    gregs[R11] = own.r11;
    gregs[R12] = own.r12;
    gregs[R13] = own.r13;
    gregs[R14] = own.r14;
    gregs[R15] = own.r15;
    gregs[DI] = own.rdi;
    gregs[SI] = own.rsi;
    gregs[BP] = own.rbp;
    gregs[BX] = own.rbx;
    gregs[DX] = own.rdx;
    gregs[AX] = own.rax;
    gregs[CX] = own.rcx;
    gregs[SP] = own.rsp;
    gregs[IP] = own.rip;
    gregs[FLAGS] = own.eflags;
    gregs[CSGSFS] = (own.cs & kSelector) | (own.ss & kSelector) << kStackSelectorShift;
    words.back() = signal_mask;

    constexpr std::size_t kStateAlignment = 64;
    constexpr std::size_t kStateAt =
        (sizeof words + kStateAlignment - 1) / kStateAlignment * kStateAlignment;
    gregs[FPSTATE] = at.value() + kStateAt;
    std::vector<std::uint8_t> frame(kStateAt + size + sizeof kMagic2);
    put(frame, 0, words);
    std::memcpy(frame.data() + kStateAt, vector_registers.data(), size);
    put(frame, kStateAt + kSoftwareBytes,
        SoftwareBytes{kMagic1,
                      static_cast<std::uint32_t>(size + sizeof kMagic2),
                      features,
                      static_cast<std::uint32_t>(size),
                      {}});
    put(frame, kStateAt + size, kMagic2);
    return frame;
}

} // namespace x86_64
} // namespace memleax::arch
