// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/stopped_thread.hpp"

#include <array>
#include <csignal>
#include <span>

#include <elf.h>
#include <sys/auxv.h>
#include <sys/ptrace.h>
#include <sys/uio.h>

#include "memleax/proc/process_info.hpp"

namespace memleax {

namespace {

constexpr std::size_t kMostWords = 2048; // AMX's tiles take 8 KiB
using RegisterSet = std::array<std::uint64_t, kMostWords>;

/// The part of `words` that it takes, in whole words; nothing if the thread or the machine has
/// none.
std::optional<std::span<const std::uint64_t>> read_set(Tid tid, int set, RegisterSet* words) {
    iovec io{words->data(), sizeof *words};
    if (ptrace(PTRACE_GETREGSET, tid.value(), set, &io) != 0) {
        return std::nullopt;
    }
    return std::span(*words).first(io.iov_len / sizeof words->front());
}

} // namespace

bool StoppedThread::get_registers(arch::Registers* regs) const {
    if constexpr (arch::kGetRegistersRequest >= 0) {
        return ptrace(static_cast<__ptrace_request>(arch::kGetRegistersRequest), tid_.value(),
                      nullptr, regs) == 0;
    } else {
        iovec io{regs, sizeof *regs};
        return ptrace(PTRACE_GETREGSET, tid_.value(), NT_PRSTATUS, &io) == 0 &&
               io.iov_len == sizeof *regs;
    }
}

std::uint64_t StoppedThread::signature_mask() const {
    if constexpr (arch::kSignatureMaskRegset >= 0) {
        std::array<std::uint64_t, 2> masks{}; // of pointers to data, and to code
        iovec io{masks.data(), sizeof masks};
        if (ptrace(PTRACE_GETREGSET, tid_.value(), arch::kSignatureMaskRegset, &io) == 0 &&
            io.iov_len == sizeof masks) {
            return masks[1];
        }
    }
    return 0;
}

std::uint64_t StoppedThread::thread_pointer(const arch::Registers& regs) const {
    if constexpr (arch::kThreadPointerRegset >= 0) {
        std::uint64_t pointer = 0; // the set may have more, which is cut
        iovec io{&pointer, sizeof pointer};
        return ptrace(PTRACE_GETREGSET, tid_.value(), arch::kThreadPointerRegset, &io) == 0
                   ? pointer
                   : 0;
    } else {
        return arch::thread_pointer(regs);
    }
}

bool StoppedThread::set_registers(const arch::Registers& regs) const {
    auto* const data = const_cast<arch::Registers*>(&regs);
    if constexpr (arch::kSetRegistersRequest >= 0) {
        return ptrace(static_cast<__ptrace_request>(arch::kSetRegistersRequest), tid_.value(),
                      nullptr, data) == 0;
    } else {
        iovec io{data, sizeof regs};
        return ptrace(PTRACE_SETREGSET, tid_.value(), NT_PRSTATUS, &io) == 0;
    }
}

bool StoppedThread::executes_foreign_code() const {
    arch::Registers regs;
    if constexpr (arch::kGetRegistersRequest >= 0) {
        return get_registers(&regs) && !arch::executes_native_code(regs);
    } else {
        iovec io{&regs, sizeof regs};
        return ptrace(PTRACE_GETREGSET, tid_.value(), NT_PRSTATUS, &io) == 0 &&
               io.iov_len != sizeof regs;
    }
}

bool StoppedThread::set_pc(arch::Registers* regs, CodeAddr pc) const {
    arch::set_pc(*regs, pc);
    if constexpr (arch::kPcUserOffset >= 0) {
        // One word instead of the whole set.
        return ptrace(PTRACE_POKEUSER, tid_.value(), arch::kPcUserOffset, pc.value()) == 0;
    } else {
        return set_registers(*regs);
    }
}

bool StoppedThread::is_breakpoint_trap() const {
    siginfo_t info{};
    return ptrace(PTRACE_GETSIGINFO, tid_.value(), nullptr, &info) == 0 &&
           arch::is_breakpoint_signal_code(info.si_code);
}

bool StoppedThread::is_sent_signal() const {
    siginfo_t info{};
    return ptrace(PTRACE_GETSIGINFO, tid_.value(), nullptr, &info) == 0 && info.si_code <= 0;
}

bool StoppedThread::has_pending_exception() const {
    const auto info = try_read_process_info(tid_);
    // A blocked one was sent (a thread may send itself what looks like the kernel's), and stays.
    const std::uint64_t pending = info ? info->pending_signals & ~info->blocked_signals : 0;
    if ((pending & kExceptionSignals) == 0) {
        return false;
    }
    constexpr int kBatch = 32;
    std::array<siginfo_t, kBatch> queue;
    __ptrace_peeksiginfo_args from{};
    from.nr = kBatch;
    for (;;) {
        const long got = ptrace(PTRACE_PEEKSIGINFO, tid_.value(), &from, queue.data());
        if (got <= 0) {
            return false;
        }
        for (long i = 0; i < got; ++i) {
            const siginfo_t& entry = queue[static_cast<std::size_t>(i)];
            const bool unblocked = (pending & signal_bit(entry.si_signo)) != 0;
            const bool raised = entry.si_signo == SIGTRAP
                                    ? arch::is_breakpoint_signal_code(entry.si_code)
                                    : entry.si_code > 0;
            if (unblocked && raised && (kExceptionSignals & signal_bit(entry.si_signo)) != 0) {
                return true;
            }
        }
        from.off += static_cast<std::uint64_t>(got);
    }
}

std::optional<std::uint64_t> StoppedThread::signal_mask() const {
    std::uint64_t mask = 0;
    if (ptrace(PTRACE_GETSIGMASK, tid_.value(), sizeof mask, &mask) != 0) {
        return std::nullopt;
    }
    return mask;
}

void StoppedThread::set_signal_mask(std::uint64_t mask) const {
    ptrace(PTRACE_SETSIGMASK, tid_.value(), sizeof mask, &mask);
}

bool StoppedThread::has_temporary_mask() const {
    const auto info = try_read_process_info(tid_);
    // PTRACE_GETSIGMASK gives the mask that the call will put back, /proc the one that is in force.
    return !info || signal_mask() != info->blocked_signals;
}

std::vector<std::uint64_t> StoppedThread::register_words() const {
    std::vector<std::uint64_t> result;
    RegisterSet words{};
    for (const int set : arch::kPointerRegsets) {
        if (const auto got = read_set(tid_, set, &words)) {
            result.insert(result.end(), got->begin(), got->end());
        } else if (set == NT_PRSTATUS) {
            return {};
        }
    }
    return result;
}

std::vector<std::byte> StoppedThread::vector_registers() const {
    RegisterSet words{};
    const auto got = read_set(tid_, arch::kVectorRegset, &words);
    const auto bytes = std::as_bytes(got.value_or(std::span<const std::uint64_t>()));
    return {bytes.begin(), bytes.end()};
}

void StoppedThread::get_discarded(DiscardedRegisters* discarded) const {
    discarded->set = 0;
    for (const arch::DiscardedRegset& each : arch::kDiscardedRegsets) {
        iovec io{discarded->bytes.data(), discarded->bytes.size()};
        if ((getauxval(each.entry) & each.capability) != 0 &&
            ptrace(PTRACE_GETREGSET, tid_.value(), each.set, &io) == 0 &&
            arch::would_be_discarded(std::span(discarded->bytes).first(io.iov_len))) {
            discarded->size = static_cast<std::uint32_t>(io.iov_len);
            discarded->set = each.set;
            return;
        }
    }
}

bool StoppedThread::set_discarded(const DiscardedRegisters& discarded) const {
    if (discarded.set == 0) {
        return true;
    }
    // Linux 6.2 to 6.15 may discard them once more, on a change of threads (arch/arm64/kernel/
    // fpsimd.c, fpsimd_save), as long as the thread counts as being in the call.
    int none = -1;
    iovec call{&none, sizeof none};
    ptrace(PTRACE_SETREGSET, tid_.value(), arch::kSystemCallRegset, &call);
    iovec io{const_cast<std::byte*>(discarded.bytes.data()), discarded.size};
    return ptrace(PTRACE_SETREGSET, tid_.value(), discarded.set, &io) == 0;
}

bool StoppedThread::has_shadow_stack() const {
    std::uint64_t first = 0; // the set may have more, which is cut
    iovec io{&first, sizeof first};
    return ptrace(PTRACE_GETREGSET, tid_.value(), arch::kShadowStackRegset, &io) == 0 && first != 0;
}

} // namespace memleax
