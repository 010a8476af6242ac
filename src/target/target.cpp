// SPDX-License-Identifier: GPL-3.0-or-later
// The calls about one thread.
#include "memleax/target/target.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>

#include <elf.h>
#include <fmt/format.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "memleax/base/log.hpp"
#include "memleax/proc/process_info.hpp"

namespace memleax {

Target::Target(Tracer& tracer, Tid pid, RemoteMemory memory, std::shared_ptr<RecoveryRecord> record)
    : tracer_(tracer), pid_(pid), memory_(std::move(memory)),
      record_(record ? std::move(record) : tracer.new_record()) {
    const auto info = try_read_process_info(pid);
    record_->start_time = info ? info->start_time : 0;
    record_->pid.store(pid.value());
    tracer_.add(*this);
}

Target::~Target() {
    std::vector<std::pair<Tid, int>> stopped;
    for (const auto& [tid, thread] : threads_) {
        if (thread.state == TracedThread::State::stopped) {
            stopped.emplace_back(tid, thread.stop_signal == SIGTRAP ? 0 : thread.stop_signal);
        }
    }
    for (const auto& [tid, signal] : stopped) {
        detach(tid, signal);
    }
    tracer_.remove(*this);
}

TracedThread& Target::add_thread(Tid tid) {
    tracer_.own(tid, *this);
    return threads_[tid];
}

void Target::remove_thread(Tid tid) {
    threads_.erase(tid);
    record_->settle(tid);
    sent_again_.erase(tid);
    held_.erase(tid);
    tracer_.disown(tid);
    tracer_.forget_deferred(tid);
}

Result<void> Target::reopen_memory() {
    auto memory = RemoteMemory::open(pid_);
    if (!memory) {
        return std::move(memory).error();
    }
    memory_ = *std::move(memory);
    parking_.reset();
    return {};
}

bool Target::has_deferred(Tid tid) const {
    return std::any_of(tracer_.deferred_.begin(), tracer_.deferred_.end(),
                       [tid](const Tracer::Stop& stop) { return tid_of(stop.event) == tid; });
}

bool Target::is_stopped(Tid tid) const {
    const auto it = threads_.find(tid);
    return it != threads_.end() && it->second.state == TracedThread::State::stopped;
}

bool Target::get_registers(Tid tid, arch::Registers* regs) const {
    if constexpr (arch::kGetRegistersRequest >= 0) {
        return ptrace(static_cast<__ptrace_request>(arch::kGetRegistersRequest), tid.value(),
                      nullptr, regs) == 0;
    } else {
        iovec io{regs, sizeof *regs};
        return ptrace(PTRACE_GETREGSET, tid.value(), NT_PRSTATUS, &io) == 0 &&
               io.iov_len == sizeof *regs;
    }
}

std::uint64_t Target::signature_mask(Tid tid) const {
    if constexpr (arch::kSignatureMaskRegset >= 0) {
        std::array<std::uint64_t, 2> masks{}; // of pointers to data, and to code
        iovec io{masks.data(), sizeof masks};
        if (ptrace(PTRACE_GETREGSET, tid.value(), arch::kSignatureMaskRegset, &io) == 0 &&
            io.iov_len == sizeof masks) {
            return masks[1];
        }
    }
    return 0;
}

bool Target::set_registers(Tid tid, const arch::Registers& regs) {
    iovec io{const_cast<arch::Registers*>(&regs), sizeof regs};
    return ptrace(PTRACE_SETREGSET, tid.value(), NT_PRSTATUS, &io) == 0;
}

std::optional<RemoteAddr> Target::stack_pointer(Tid tid) const {
    if (is_stopped(tid)) {
        arch::Registers regs;
        return get_registers(tid, &regs) ? std::optional(arch::sp(regs)) : std::nullopt;
    }
    const auto kernel = try_read_kernel_state(pid_, tid);
    return kernel && kernel->sp.value() != 0 ? std::optional(kernel->sp) : std::nullopt;
}

bool Target::set_pc(Tid tid, arch::Registers* regs, CodeAddr pc) {
    arch::set_pc(*regs, pc);
    if constexpr (arch::kPcUserOffset >= 0) {
        // One word instead of the whole set.
        return ptrace(PTRACE_POKEUSER, tid.value(), arch::kPcUserOffset, pc.value()) == 0;
    } else {
        return set_registers(tid, *regs);
    }
}

bool Target::is_breakpoint_trap(Tid tid) const {
    siginfo_t info{};
    return ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0 &&
           arch::is_breakpoint_signal_code(info.si_code);
}

bool Target::has_pending_exception(Tid tid) const {
    const auto info = try_read_process_info(tid);
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
        const long got = ptrace(PTRACE_PEEKSIGINFO, tid.value(), &from, queue.data());
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

void Target::resume(Tid tid, int signal) {
    const auto it = threads_.find(tid);
    if (it != threads_.end()) {
        it->second.state = TracedThread::State::running;
        it->second.stop_signal = 0;
        it->second.asleep_in.reset();
        // A child by vfork is another process, and its end is not that of our threads.
        if ((signal_bit(signal) & kCoreSignals) != 0 && !it->second.is_child_process) {
            core_signal_ = {tid, signal};
        }
    }
    record_->settle(tid);
    if (const auto held = held_.find(tid); held != held_.end()) {
        for (const siginfo_t& info : held->second) {
            record_->owe(tid, info);
        }
    }
    ptrace(PTRACE_CONT, tid.value(), nullptr, signal);
}

void Target::forget_dead_children() {
    std::erase_if(expected_children_, [](Tid tid) {
        const auto info = try_read_process_info(tid);
        return !info || info->has_ended();
    });
}

void Target::listen(Tid tid) {
    const auto it = threads_.find(tid);
    if (it == threads_.end()) {
        return;
    }
    // Since the group-stop was reported the thread may have performed a system call for us, SIGCONT
    // may have come meanwhile, and the stop be one of our own: in that one it would listen for
    // ever.
    siginfo_t stop{};
    const bool is_over =
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &stop) == 0 && stop.si_signo == SIGTRAP;
    if (!is_over && ptrace(PTRACE_LISTEN, tid.value(), nullptr, nullptr) == 0) {
        it->second.state = TracedThread::State::listening;
    } else if (is_over || errno == EIO) {
        // What there is to be told, the kernel tells before the thread gets back to its own code.
        ptrace(PTRACE_INTERRUPT, tid.value(), nullptr, nullptr);
        resume(tid);
    }
}

// PTRACE_INTERRUPT wakes the thread that writes the core, and the kernel (6.1) leaves it empty.
void Target::interrupt(Tid tid) {
    if (dumps_core()) {
        return;
    }
    if constexpr (arch::kResultReplacesArgument) {
        const auto it = threads_.find(tid);
        if (it != threads_.end() && it->second.state == TracedThread::State::running) {
            it->second.asleep_in = try_read_kernel_state(pid_, tid);
        }
    }
    ptrace(PTRACE_INTERRUPT, tid.value(), nullptr, nullptr);
}

// Its signal is not owed any more from here on: the thread that the kernel wakes may get our CPU at
// once, and if we were killed then the guardian would send it a second time.
void Target::detach(Tid tid, int signal) {
    record_->settle(tid);
    ptrace(PTRACE_DETACH, tid.value(), nullptr, signal);
    remove_thread(tid);
}

bool Target::stop_and_defer(Tid tid) {
    const auto it = threads_.find(tid);
    if (it == threads_.end()) {
        return false;
    }
    if (it->second.state == TracedThread::State::stopped) {
        return true;
    }
    interrupt(tid);
    auto event = wait_for_stop(tid);
    bool in_group_stop = false;
    // Whoever else has asked for a stop gets it first.
    while (event && is_stopped(tid) && threads_[tid].stop_signal == 0 &&
           has_pending_exception(tid)) {
        in_group_stop = in_group_stop || std::holds_alternative<GroupStop>(*event);
        resume(tid);
        event = wait_for_stop(tid);
    }
    if (in_group_stop && is_stopped(tid)) {
        interrupt(tid); // told anew, as soon as the thread goes on
    }
    if (event) {
        defer(*event);
    }
    return is_stopped(tid);
}

Result<Tid> Target::try_to_borrow(const std::vector<Candidate>& candidates) {
    // One that is about to get a signal comes last. As long as nothing of ours is in the target, it
    // can simply get it. Then it cannot (its handler's frame might lead to our pages), and would
    // have to be stepped, which our handler for SIGTRAP makes harmless should we die. In sigsuspend
    // and its like it has a temporary mask, which no ptrace request can put back; with the usual
    // one in place the kernel would find the signal blocked and queue it anew, behind its
    // followers.
    const bool can_get_it =
        record_->handler_in_force.load() == 0 && record_->breakpoint_count.load() == 0;
    std::optional<Tid> about_to_get_a_signal;
    for (const Candidate& candidate : candidates) {
        const Tid tid = candidate.tid;
        const bool is_last = candidate.is_filtered || candidate.cost == StopCost::uninterruptible;
        if (is_last && about_to_get_a_signal) {
            break;
        }
        if (!stop_and_defer(tid) || threads_[tid].in_vfork) {
            continue; // it has just ended, or begun to wait for a child
        }
        const int signal = threads_[tid].stop_signal;
        if (signal == 0 || (signal == SIGTRAP && is_breakpoint_trap(tid))) {
            return tid;
        }
        if (!about_to_get_a_signal && (can_get_it || !has_temporary_mask(tid))) {
            about_to_get_a_signal = tid;
        }
    }
    if (about_to_get_a_signal && (!can_get_it || deliver_first(*about_to_get_a_signal))) {
        return *about_to_get_a_signal;
    }
    return cannot_be_stopped();
}

} // namespace memleax
