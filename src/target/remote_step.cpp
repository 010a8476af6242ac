// SPDX-License-Identifier: GPL-3.0-or-later
// Making a stopped thread execute one instruction, and one system call of ours.
#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <vector>

#include <fmt/format.h>
#include <poll.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/modules.hpp"
#include "memleax/process_info.hpp"
#include "memleax/recovery_record.hpp"
#include "memleax/target.hpp"
#include "ptrace_options.hpp"

namespace memleax {

namespace {

enum class Steps { no, yes };

/// Blocks all signals of a stopped thread but those that an instruction raises itself (SIGTRAP only
/// if it is stepped): an instruction that raises a blocked one makes the kernel kill the process
/// (force_sig). What is blocked stays pending, with its siginfo, and comes after the mask is back.
class SignalsHeldBack {
  public:
    SignalsHeldBack(Tid tid, RecoveryRecord& record, Steps steps) : tid_(tid), record_(record) {
        held_ = ptrace(PTRACE_GETSIGMASK, tid_.value(), sizeof mask_, &mask_) == 0;
        std::uint64_t blocked = ~0ULL;
        for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGSYS}) {
            if (signal != SIGTRAP || steps == Steps::yes) {
                blocked &= ~(1ULL << (signal - 1));
            }
        }
        if (held_) {
            record_.borrowed.mask = mask_;
            record_.borrowed.tid_of_mask.store(tid_.value());
        }
        ptrace(PTRACE_SETSIGMASK, tid_.value(), sizeof blocked, &blocked);
    }
    ~SignalsHeldBack() {
        if (held_) {
            ptrace(PTRACE_SETSIGMASK, tid_.value(), sizeof mask_, &mask_);
            record_.borrowed.tid_of_mask.store(0);
        }
    }
    SignalsHeldBack(const SignalsHeldBack&) = delete;
    SignalsHeldBack& operator=(const SignalsHeldBack&) = delete;

  private:
    Tid tid_;
    RecoveryRecord& record_;
    std::uint64_t mask_ = 0; ///< the kernel's sigset_t
    bool held_ = false;
};

/// Lifts a thread's seccomp filter for as long as it lives: the filter may forbid our calls, or
/// kill the process for them (PTRACE_O_SUSPEND_SECCOMP, Linux 4.3; needs CAP_SYS_ADMIN).
class SeccompSuspended {
  public:
    static constexpr long kSuspend = 1L
                                     << 21; // <linux/ptrace.h>, which clashes with <sys/ptrace.h>

    explicit SeccompSuspended(Tid tid) : tid_(tid) {
        const auto info = try_read_process_info(tid);
        needed_ = info && info->seccomp_mode != 0;
        ok_ = !needed_ ||
              ptrace(PTRACE_SETOPTIONS, tid.value(), nullptr, kPtraceOptions | kSuspend) == 0;
    }
    ~SeccompSuspended() {
        if (needed_ && ok_) {
            ptrace(PTRACE_SETOPTIONS, tid_.value(), nullptr, kPtraceOptions);
        }
    }
    SeccompSuspended(const SeccompSuspended&) = delete;
    SeccompSuspended& operator=(const SeccompSuspended&) = delete;
    [[nodiscard]] bool ok() const { return ok_; }

  private:
    Tid tid_;
    bool needed_ = false;
    bool ok_ = true;
};

/// Bytes of executable mappings that are looked at in search of a system call instruction; the vDSO
/// comes first and has one, so that more than this is never needed.
constexpr std::size_t kSearchBytes = 1 << 20;

/// What came between while a thread executed something for us, and is told or sent again.
class PutAside {
  public:
    PutAside(Tid group, Tid tid) : group_(group), tid_(tid) {}
    void signal(int number) { signals_.push_back(number); }
    void stop() { stopped_ = true; }
    void give_back(Target& target) const {
        for (const int number : signals_) {
            syscall(SYS_tgkill, group_.value(), tid_.value(), number);
        }
        if (stopped_) {
            target.interrupt(tid_); // told again, as soon as the thread goes on
        }
    }

  private:
    Tid group_;
    Tid tid_;
    std::vector<int> signals_;
    bool stopped_ = false;
};

Error ended(Tid tid) {
    return Error(fmt::format("thread {} has ended", tid.value()), ESRCH);
}

/// Is it the stop at the end of a single step? After a system call some kernels make it up as if by
/// a user who has no pid (user_single_step_report).
bool is_step_trap(Tid tid, int signal) {
    siginfo_t info{};
    return signal == SIGTRAP && ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0 &&
           (info.si_code == TRAP_TRACE || info.si_code == TRAP_BRKPT ||
            (info.si_code == SI_USER && info.si_pid == 0));
}

/// The end of an executable mapping of a file that holds nothing, as the code ends before the page
/// does: nobody ever gets there. Linkers fill it with zeros, or with breakpoints (lld).
std::optional<CodeAddr> find_padding(Tid pid, RemoteMemory& memory) {
    constexpr std::size_t kEnough = 16;
    const auto maps = read_maps(pid);
    if (!maps) {
        return std::nullopt;
    }
    for (const Mapping& mapping : *maps) {
        if (!mapping.executable || !mapping.readable || mapping.writable || mapping.shared ||
            mapping.path.empty() || mapping.path[0] != '/') {
            continue;
        }
        const CodeAddr at(mapping.range.end - kEnough);
        std::array<std::byte, kEnough> bytes{};
        if (memory.try_read(at.as_data(), bytes) == bytes.size() &&
            (bytes[0] == std::byte{0} || bytes[0] == std::byte{0xcc}) &&
            std::all_of(bytes.begin(), bytes.end(), [&](std::byte b) { return b == bytes[0]; })) {
            return at;
        }
    }
    return std::nullopt;
}

/// A thread with other registers than its own, for one system call: they are kept where the
/// guardian finds them, and the thread stands where nothing happens to it until they are back.
class BorrowedThread {
  public:
    BorrowedThread(RecoveryRecord& record, RemoteMemory& memory, Tid tid,
                   const arch::Registers& saved, int stop_signal)
        : entry_(record.borrowed), memory_(memory), tid_(tid) {
        entry_.registers = saved;
        // The step ends in a stop of its own, so what this stop was about to deliver is put back.
        entry_.stop_signal = stop_signal;
        if (stop_signal != 0) {
            ptrace(PTRACE_GETSIGINFO, tid_.value(), nullptr, &entry_.info);
        }
        entry_.parking_byte_count = 0;
    }
    /// Borrows a few bytes of code, too.
    Result<void> park_in(CodeAddr padding) {
        static_assert(arch::kParkingBytes.size() <= sizeof entry_.parking_bytes);
        const auto bytes = std::as_writable_bytes(std::span(entry_.parking_bytes))
                               .first(arch::kParkingBytes.size());
        if (memory_.try_read(padding.as_data(), bytes) != bytes.size()) {
            return Error("cannot read the code", EFAULT);
        }
        entry_.parking = padding.value();
        entry_.parking_byte_count = static_cast<std::uint32_t>(bytes.size());
        entry_.tid.store(tid_.value());
        return memory_.write(padding.as_data(), arch::kParkingBytes);
    }
    void use(CodeAddr instruction) {
        entry_.parking = instruction.value();
        entry_.tid.store(tid_.value());
    }
    [[nodiscard]] CodeAddr instruction() const { return CodeAddr(entry_.parking); }
    ~BorrowedThread() {
        if (entry_.parking_byte_count != 0) {
            (void)memory_.write(RemoteAddr(entry_.parking),
                                std::span(entry_.parking_bytes).first(entry_.parking_byte_count));
        }
        entry_.tid.store(0);
    }
    BorrowedThread(const BorrowedThread&) = delete;
    BorrowedThread& operator=(const BorrowedThread&) = delete;

    /// With the registers comes back the call that the thread was interrupted in, which the kernel
    /// restarts when it sees its number and -ERESTART* in them again.
    bool give_back(Target& target) {
        if (!target.set_registers(tid_, entry_.registers)) {
            return false;
        }
        if (entry_.stop_signal != 0) {
            ptrace(PTRACE_SETSIGINFO, tid_.value(), nullptr, &entry_.info);
        }
        return true;
    }

  private:
    RecoveryRecord::BorrowedThread& entry_;
    RemoteMemory& memory_;
    Tid tid_;
};

} // namespace

std::optional<std::uint64_t> Target::signal_mask(Tid tid) const {
    std::uint64_t mask = 0;
    if (ptrace(PTRACE_GETSIGMASK, tid.value(), sizeof mask, &mask) != 0) {
        return std::nullopt;
    }
    return mask;
}

void Target::set_signal_mask(Tid tid, std::uint64_t mask) {
    ptrace(PTRACE_SETSIGMASK, tid.value(), sizeof mask, &mask);
}

bool Target::has_temporary_mask(Tid tid) const {
    const auto info = try_read_process_info(tid);
    // PTRACE_GETSIGMASK gives the mask that the call will put back, /proc the one that is in force.
    return !info || signal_mask(tid) != info->blocked_signals;
}

Tid Target::group_of(Tid tid) const {
    const auto it = threads_.find(tid);
    return it != threads_.end() && it->second.is_child_process ? tid : pid_;
}

std::optional<int> Target::await_stop_of(Tid tid) {
    int status = 0;
    pid_t got = 0;
    for (int polls = 0; (got = waitpid(tid.value(), &status, __WALL | __WNOTHREAD | WNOHANG)) <= 0;
         ++polls) {
        if (got < 0 && errno != EINTR) {
            return std::nullopt;
        }
        if (polls < SpinPolicy::kPolls) {
            sched_yield();
        } else {
            tracer_.reap_dead(tid);
            poll(nullptr, 0, 1);
        }
    }
    if (!WIFSTOPPED(status)) {
        if (const auto event = decode(tid, status)) {
            defer(*event);
        }
        return std::nullopt;
    }
    return status;
}

Result<void> Target::step(Tid tid) {
    const SignalsHeldBack hold(tid, *record_, Steps::yes);
    PutAside aside(group_of(tid), tid);
    for (;;) {
        if (ptrace(PTRACE_SINGLESTEP, tid.value(), nullptr, nullptr) != 0) {
            return ended(tid);
        }
        const auto status = await_stop_of(tid);
        if (!status) {
            return ended(tid);
        }
        if ((*status >> 16) != 0) {
            aside.stop(); // an interrupt or a group-stop came first
            continue;
        }
        const int signal = WSTOPSIG(*status);
        if (is_step_trap(tid, signal)) {
            break;
        }
        siginfo_t info{};
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info);
        if (info.si_code > 0) {
            if (signal != SIGTRAP) {
                threads_[tid].stop_signal = signal; // the instruction faulted
                defer(SignalStop{tid, signal});
            }
            break;
        }
        aside.signal(signal); // SIGSTOP cannot be held back, and SIGTRAP must not be
    }
    aside.give_back(*this);
    return {};
}

// Without a single step: should we die in the middle, the thread would get a SIGTRAP that nobody
// expects. The stops used here leave nothing behind: the kernel sends "SIGTRAP|0x80" to a thread
// that it lets out of a system call stop, which is no signal (kernel/signal.c, valid_signal()). But
// a signal that this stop was about to deliver can be put back only into a stop of the same kind,
// and a step is the way to one.
Result<void> Target::run_system_call(Tid tid, CodeAddr instruction, bool to_signal_stop) {
    const SignalsHeldBack hold(tid, *record_, to_signal_stop ? Steps::yes : Steps::no);
    PutAside aside(group_of(tid), tid);
    constexpr int kSystemCallStop = SIGTRAP | 0x80;
    bool entered = false;
    for (bool done = false; !done;) {
        // Once it is in the call, it is interrupted on its way out. In that stop, unlike in that of
        // the call's end, the kernel looks whether the registers ask for a restart of the call that
        // the thread was in before.
        if (entered && !to_signal_stop) {
            interrupt(tid);
        }
        const auto request = !entered         ? PTRACE_SYSCALL
                             : to_signal_stop ? PTRACE_SINGLESTEP
                                              : PTRACE_CONT;
        if (ptrace(request, tid.value(), nullptr, nullptr) != 0) {
            return ended(tid);
        }
        const auto status = await_stop_of(tid);
        if (!status) {
            return ended(tid);
        }
        const int signal = WSTOPSIG(*status);
        if (signal == kSystemCallStop) {
            entered = true;
        } else if ((*status >> 16) == 0) {
            // A SIGTRAP that was pending already has taken the place of the step's.
            done = to_signal_stop && entered && signal == SIGTRAP && has_left(tid, instruction);
            if (!is_step_trap(tid, signal)) {
                aside.signal(signal);
            }
        } else {
            // In a stopped process (SIGSTOP) each such stop is a group-stop.
            done = entered && !to_signal_stop && has_left(tid, instruction);
            if (signal != SIGTRAP || !done) {
                aside.stop();
            }
        }
    }
    aside.give_back(*this);
    return {};
}

bool Target::has_left(Tid tid, CodeAddr instruction) const {
    arch::Registers regs;
    return !get_registers(tid, &regs) || arch::pc(regs) != instruction;
}

// Out of the stop of clone, fork or exec, to the next one: then the kernel has put that call's
// result into the registers.
Result<void> Target::settle(Tid tid) {
    const SignalsHeldBack hold(tid, *record_, Steps::no);
    PutAside aside(group_of(tid), tid);
    for (;;) {
        interrupt(tid);
        if (ptrace(PTRACE_CONT, tid.value(), nullptr, nullptr) != 0) {
            return ended(tid);
        }
        const auto status = await_stop_of(tid);
        if (!status) {
            return ended(tid);
        }
        const int signal = WSTOPSIG(*status);
        if ((*status >> 16) != 0) {
            if (signal != SIGTRAP) {
                aside.stop();
            }
            break;
        }
        aside.signal(signal);
    }
    aside.give_back(*this);
    return {};
}

Result<CodeAddr> Target::find_syscall_instruction(Tid pid, RemoteMemory& memory) {
    auto maps = read_maps(pid);
    if (!maps) {
        return std::move(maps).error();
    }
    const auto search = [&memory](const Mapping& mapping) -> std::optional<CodeAddr> {
        std::vector<std::byte> bytes(std::min<std::uint64_t>(mapping.range.size(), kSearchBytes));
        bytes.resize(memory.try_read(RemoteAddr(mapping.range.begin), bytes));
        for (std::size_t i = 0; i + arch::kSyscallBytes.size() <= bytes.size();
             i += arch::kInstructionAlignment) {
            if (std::equal(arch::kSyscallBytes.begin(), arch::kSyscallBytes.end(),
                           bytes.begin() + i,
                           [](std::uint8_t a, std::byte b) { return std::byte{a} == b; })) {
                return CodeAddr(mapping.range.begin + i);
            }
        }
        return std::nullopt;
    };
    std::stable_partition(maps->begin(), maps->end(),
                          [](const Mapping& mapping) { return mapping.path == "[vdso]"; });
    for (const Mapping& mapping : *maps) {
        if (mapping.executable && mapping.readable) {
            if (const auto found = search(mapping)) {
                return *found;
            }
        }
    }
    return Error(fmt::format("process {} has no system call instruction to borrow", pid.value()));
}

Result<long> Target::system_call(Tid tid, long number,
                                 std::initializer_list<std::uint64_t> arguments) {
    auto ready = prepare_for_system_call(tid);
    if (!ready) {
        return std::move(ready).error();
    }
    arch::Registers saved{};
    if (!get_registers(tid, &saved)) {
        return ended(tid);
    }
    BorrowedThread borrowed(*record_, memory_, tid, saved,
                            is_about_to_get_a_signal(tid) ? threads_[tid].stop_signal : 0);
    if (parking_) {
        borrowed.use(*parking_);
    } else if (const auto padding = find_padding(pid_, memory_)) {
        auto patched = borrowed.park_in(*padding);
        if (!patched) {
            return std::move(patched).error();
        }
    } else {
        auto found = find_syscall_instruction(pid_, memory_);
        if (!found) {
            return std::move(found).error();
        }
        borrowed.use(*found);
    }
    record_->borrowed.number = number;
    record_->borrowed.mapped_bytes = number == SYS_mmap ? arguments.begin()[1] : 0;
    auto result = execute_system_call(tid, saved, borrowed.instruction(), number,
                                      std::span(arguments.begin(), arguments.size()));
    if (number == SYS_mmap && result && (*result >= 0 || *result < -4095)) {
        record_->borrowed.mapped.store(static_cast<std::uint64_t>(*result));
    }
    if (!borrowed.give_back(*this)) {
        return ended(tid);
    }
    return result;
}

Result<long> Target::system_call_in_copy(Tid tid, RemoteMemory& memory, long number,
                                         std::initializer_list<std::uint64_t> arguments) {
    auto ready = prepare_for_system_call(tid);
    if (!ready) {
        return std::move(ready).error();
    }
    auto instruction = find_syscall_instruction(tid, memory);
    if (!instruction) {
        return std::move(instruction).error();
    }
    arch::Registers saved{};
    if (!get_registers(tid, &saved)) {
        return ended(tid);
    }
    auto result = execute_system_call(tid, saved, *instruction, number,
                                      std::span(arguments.begin(), arguments.size()));
    if (!set_registers(tid, saved)) {
        return ended(tid);
    }
    return result;
}

bool Target::is_about_to_get_a_signal(Tid tid) const {
    const auto it = threads_.find(tid);
    return it != threads_.end() && it->second.stop_signal != 0;
}

Result<void> Target::prepare_for_system_call(Tid tid) {
    const auto it = threads_.find(tid);
    if (it == threads_.end() || !it->second.in_system_call) {
        return {};
    }
    MEMLEAX_ASSERT(!it->second.in_vfork);
    auto settled = settle(tid);
    if (settled) {
        threads_[tid].in_system_call = false;
    }
    return settled;
}

Result<long> Target::execute_system_call(Tid tid, const arch::Registers& saved,
                                         CodeAddr instruction, long number,
                                         std::span<const std::uint64_t> arguments) {
    const SeccompSuspended unfiltered(tid);
    if (!unfiltered.ok()) {
        return Error(fmt::format("thread {} has a seccomp filter, which memleax may not suspend",
                                 tid.value()),
                     EPERM)
            .with_advice("run memleax with CAP_SYS_ADMIN");
    }
    arch::Registers regs = saved;
    arch::prepare_system_call(regs, instruction, number, arguments);
    if (!set_registers(tid, regs)) {
        return ended(tid);
    }
    auto executed = run_system_call(tid, instruction, is_about_to_get_a_signal(tid));
    if (!executed) {
        return std::move(executed).error();
    }
    if (!get_registers(tid, &regs)) {
        return ended(tid);
    }
    if (arch::pc(regs) == instruction) {
        return Error(fmt::format("thread {} did not perform a system call", tid.value()), EAGAIN);
    }
    return arch::system_call_result(regs);
}

} // namespace memleax
