// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/target.hpp"

#include <cerrno>
#include <csignal>
#include <utility>

#include <sys/ptrace.h>

#include "core_dump.hpp"
#include "interrupted_calls.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/thread_borrower.hpp"
#include "memleax/target/thread_signals.hpp"
#include "remote_calls.hpp"
#include "stepper.hpp"
#include "stop_decoder.hpp"
#include "stop_wait.hpp"

namespace memleax {

Target::Target(Tracer& tracer, Tid pid, RemoteMemory memory, std::shared_ptr<RecoveryRecord> record)
    : tracer_(tracer), pid_(pid), memory_(std::move(memory)),
      record_(record ? std::move(record) : tracer.new_record()),
      core_dump_(std::make_unique<CoreDump>()),
      interrupted_(std::make_unique<InterruptedCalls>(pid, threads_, memory_)),
      signals_(std::make_unique<ThreadSignals>(*this, *record_)),
      decoder_(std::make_unique<StopDecoder>(
          *this, tracer,
          StopDecoder::Parts{threads_, births_, *signals_, *interrupted_, *core_dump_})),
      waits_(std::make_unique<StopWait>(*this, tracer)),
      stepper_(std::make_unique<Stepper>(*this, threads_, *record_)),
      calls_(std::make_unique<RemoteCalls>(*this, threads_, *interrupted_, *stepper_)),
      borrower_(std::make_unique<ThreadBorrower>(*this)) {
    const auto info = try_read_process_info(pid);
    record_->start_time = info ? info->start_time : 0;
    record_->pid.store(pid.value());
    tracer_.add(*this);
}

Target::~Target() {
    std::vector<std::pair<Tid, int>> stopped;
    for (const auto& [tid, thread] : threads_.all()) {
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
    threads_.remove(tid);
    record_->settle(tid);
    signals_->forget(tid);
    interrupted_->forget(tid);
    tracer_.disown(tid);
    tracer_.queue().forget(tid);
}

Result<void> Target::reopen_memory() {
    auto memory = RemoteMemory::open(pid_);
    if (!memory) {
        return std::move(memory).error();
    }
    memory_ = *std::move(memory);
    calls_->set_parking(std::nullopt);
    return {};
}

std::optional<RemoteAddr> Target::stack_pointer(Tid tid) const {
    if (is_stopped(tid)) {
        arch::Registers regs;
        return get_registers(tid, &regs) ? std::optional(arch::sp(regs)) : std::nullopt;
    }
    const auto kernel = try_read_kernel_state(pid_, tid);
    return kernel && kernel->sp.value() != 0 ? std::optional(kernel->sp) : std::nullopt;
}

void Target::resume(Tid tid, int signal) {
    if (TracedThread* thread = threads_.find(tid)) {
        thread->state = TracedThread::State::running;
        thread->stop_signal = 0;
        interrupted_->on_resume(tid);
        // A child by vfork is another process, and its end is not that of our threads.
        if (!thread->is_child_process) {
            core_dump_->on_resume(tid, signal);
        }
    }
    record_->settle(tid);
    signals_->on_resume(tid);
    ptrace(PTRACE_CONT, tid.value(), nullptr, signal);
}

void Target::forget_dead_children() {
    births_.forget_expected_if([](Tid tid) {
        const auto info = try_read_process_info(tid);
        return !info || info->has_ended();
    });
}

void Target::listen(Tid tid) {
    TracedThread* thread = threads_.find(tid);
    if (thread == nullptr) {
        return;
    }
    // Since the group-stop was reported the thread may have performed a system call for us, SIGCONT
    // may have come meanwhile, and the stop be one of our own: in that one it would listen for
    // ever.
    siginfo_t stop{};
    const bool is_over =
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &stop) == 0 && stop.si_signo == SIGTRAP;
    if (!is_over && ptrace(PTRACE_LISTEN, tid.value(), nullptr, nullptr) == 0) {
        thread->state = TracedThread::State::listening;
    } else if (is_over || errno == EIO) {
        // What there is to be told, the kernel tells before the thread gets back to its own code.
        ptrace(PTRACE_INTERRUPT, tid.value(), nullptr, nullptr);
        resume(tid);
    }
}

void Target::interrupt(Tid tid) {
    if (core_dump_->is_in_progress()) {
        return;
    }
    interrupted_->on_interrupt(tid);
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
    const TracedThread* thread = threads_.find(tid);
    if (thread == nullptr) {
        return false;
    }
    if (thread->state == TracedThread::State::stopped) {
        return true;
    }
    interrupt(tid);
    auto event = waits_->wait_for_stop(tid);
    bool in_group_stop = false;
    // Whoever else has asked for a stop gets it first.
    while (event && is_stopped(tid) && stop_signal(tid) == 0 &&
           StoppedThread(tid).has_pending_exception()) {
        in_group_stop = in_group_stop || std::holds_alternative<GroupStop>(*event);
        resume(tid);
        event = waits_->wait_for_stop(tid);
    }
    if (in_group_stop && is_stopped(tid)) {
        interrupt(tid); // told anew, as soon as the thread goes on
    }
    if (event) {
        defer(*event);
    }
    return is_stopped(tid);
}

Tid Target::group_of(Tid tid) const {
    if (!threads_.is_child_process(tid)) {
        return pid_;
    }
    const auto info = try_read_process_info(tid);
    return info ? info->tgid : tid;
}

void Target::consume_stop(Tid tid) {
    const int signal = stop_signal(tid);
    siginfo_t info{};
    if (signal != 0 &&
        !(signal == SIGTRAP && handler_ != nullptr && handler_->move_hit_to_slot(tid)) &&
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0) {
        record_->settle(tid, signal); // it may have been taken before
        record_->owe(tid, info);
    }
    Tracer::consume_stop(tid);
}

void Target::drop_stop_signal(Tid tid) {
    if (TracedThread* thread = threads_.find(tid)) {
        thread->stop_signal = 0;
    }
}

void Target::adopt_child(Tid tid) {
    interrupted_->forget(tid);
    add_thread(tid) = TracedThread{
        .state = TracedThread::State::stopped, .stop_signal = 0, .is_child_process = true};
}

Result<long> Target::system_call(Tid tid, long number,
                                 std::initializer_list<std::uint64_t> arguments) {
    return calls_->perform(tid, number, arguments);
}

Result<long> Target::system_call_in_copy(Tid tid, RemoteMemory& memory, long number,
                                         std::initializer_list<std::uint64_t> arguments) {
    return calls_->perform_in_copy(tid, memory, number, arguments);
}

} // namespace memleax
