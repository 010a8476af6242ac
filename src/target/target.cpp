// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/target.hpp"

#include <cerrno>
#include <csignal>
#include <utility>

#include <poll.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "memleax/base/patience.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/target/stopped_thread.hpp"
#include "target_parts.hpp"

namespace memleax {

Target::Parts::Parts(Target& of, Tracer& the_tracer)
    : target(of), tracer(the_tracer), interrupted(of.pid_, threads, of.memory_),
      signals(of, *of.record_),
      decoder(of, tracer, StopDecoder::Parts{threads, births, signals, interrupted, core_dump}),
      waits(of, tracer), stepper(of, threads, *of.record_),
      calls(of, threads, interrupted, stepper), borrower(of) {}

Target::Target(Tracer& tracer, Tid pid, RemoteMemory memory, std::shared_ptr<RecoveryRecord> record)
    : pid_(pid), memory_(std::move(memory)),
      record_(record ? std::move(record) : tracer.new_record()),
      parts_(std::make_unique<Parts>(*this, tracer)) {
    const auto info = try_read_process_info(pid);
    record_->start_time = info ? info->start_time : 0;
    record_->pid.store(pid.value());
    tracer.add(*this);
}

// Whoever waits for its parent, which has ended or is not ours any more, reaps a copy that is left.
Target::~Target() {
    if (parts_->copy != nullptr) {
        parts_->copy->end();
    }
    std::vector<std::pair<Tid, int>> stopped;
    for (const auto& [tid, thread] : parts_->threads.all()) {
        if (thread.state == TracedThread::State::stopped) {
            stopped.emplace_back(tid, thread.stop_signal == SIGTRAP ? 0 : thread.stop_signal);
        }
    }
    for (const auto& [tid, signal] : stopped) {
        detach(tid, signal);
    }
    parts_->tracer.remove(*this);
}

TracedThread& Target::Parts::add_thread(Tid tid) {
    tracer.own(tid, target);
    return threads[tid];
}

void Target::Parts::remove_thread(Tid tid) {
    threads.remove(tid);
    target.record_->settle(tid);
    signals.forget(tid);
    interrupted.forget(tid);
    tracer.disown(tid);
    tracer.queue().forget(tid);
}

Tid Target::Parts::group_of(Tid tid) const {
    const TracedThread* thread = threads.find(tid);
    if (thread != nullptr && !thread->is_child_process) {
        return target.pid();
    }
    const auto info = try_read_process_info(tid);
    return info ? info->tgid : tid;
}

std::optional<StopEvent> Target::next_event(Wait wait) {
    return parts_->tracer.next_stop_of(*this, wait);
}

void Target::defer(const StopEvent& event) {
    parts_->tracer.queue().push({this, event});
}

void Target::put_off_stops() {
    while (const auto stop = parts_->tracer.wait_for(Tid(-1), WNOHANG)) {
        parts_->tracer.put_off(*stop);
    }
}

bool Target::has_deferred(Tid tid) const {
    return parts_->tracer.queue().has(tid);
}

bool Target::has_deferred() const {
    return parts_->tracer.queue().has(*this);
}

std::optional<StopEvent> Target::take_deferred(Tid tid) {
    return parts_->tracer.queue().pop_of(*this, tid);
}

const ThreadTable::Map& Target::threads() const {
    return parts_->threads.all();
}

bool Target::is_stopped(Tid tid) const {
    return parts_->threads.is_stopped(tid);
}

int Target::stop_signal(Tid tid) const {
    return parts_->threads.stop_signal(tid);
}

const std::set<Tid>& Target::expected_children() const {
    return parts_->births.expected();
}

bool Target::is_guarded() const {
    return parts_->tracer.is_guarded();
}

ThreadSignals& Target::signals() {
    return parts_->signals;
}

ThreadBorrower& Target::borrower() {
    return parts_->borrower;
}

const ThreadBorrower& Target::borrower() const {
    return parts_->borrower;
}

Result<void> Target::reopen_memory() {
    auto memory = RemoteMemory::open(pid_);
    if (!memory) {
        return std::move(memory).error();
    }
    memory_ = *std::move(memory);
    parts_->calls.set_page(std::nullopt);
    return {};
}

bool Target::was_asleep(Tid tid, const arch::Registers& regs) const {
    return parts_->interrupted.was_asleep(tid, regs);
}

std::optional<RemoteAddr> Target::stack_pointer(Tid tid) const {
    if (is_stopped(tid)) {
        arch::Registers regs;
        return StoppedThread(tid).get_registers(&regs) ? std::optional(arch::sp(regs))
                                                       : std::nullopt;
    }
    const auto kernel = try_read_kernel_state(pid_, tid);
    return kernel && kernel->sp.value() != 0 ? std::optional(kernel->sp) : std::nullopt;
}

bool Target::is_child_process(Tid tid) const {
    return parts_->threads.is_child_process(tid);
}

bool Target::has_executed(Tid tid) const {
    return tid == pid_ && parts_->tracer.queue().has_exec_of(tid);
}

void Target::resume(Tid tid, int signal) {
    if (has_executed(tid)) {
        return;
    }
    signal = parts_->signals.on_resume(tid, signal);
    if (TracedThread* thread = parts_->threads.find(tid)) {
        thread->state = TracedThread::State::running;
        thread->stop_signal = 0;
        parts_->interrupted.on_resume(tid);
        // A child by vfork is another process, and its end is not that of our threads.
        if (!thread->is_child_process) {
            parts_->core_dump.on_resume(tid, signal);
        }
    }
    ptrace(PTRACE_CONT, tid.value(), nullptr, signal);
}

void Target::forget_dead_children() {
    parts_->births.forget_expected_if([](Tid tid) {
        const auto info = try_read_process_info(tid);
        return !info || info->has_ended();
    });
}

// It stands in its BirthStop, whether or not anybody has been told, or is on its way there: the
// kernel lets the child run before (kernel/fork.c, kernel_clone).
std::optional<Tid> Target::await_parent_of(Tid child) const {
    constexpr std::int64_t kMostMs = 20;
    for (const Patience patience(kMostMs);;) {
        for (const auto& [tid, thread] : threads()) {
            unsigned long message = 0;
            if (ptrace(PTRACE_GETEVENTMSG, tid.value(), nullptr, &message) == 0 &&
                message == static_cast<unsigned long>(child.value())) {
                return tid;
            }
        }
        if (patience.is_over()) {
            return std::nullopt;
        }
        poll(nullptr, 0, 1);
    }
}

std::optional<ChildStop> Target::await_newborn(const Patience& patience) {
    for (;;) {
        const std::set<Tid> expected = expected_children(); // which a wait changes
        for (const Tid child : expected) {
            if (const auto event = parts_->waits.wait_for(child, WNOHANG)) {
                defer(*event);
            }
        }
        if (const auto newborn = parts_->tracer.queue().pop_newborn_of(*this)) {
            return std::get<ChildStop>(*newborn);
        }
        forget_dead_children();
        if (expected_children().empty() || patience.is_over()) {
            return std::nullopt;
        }
        poll(nullptr, 0, 1);
    }
}

void Target::listen(Tid tid) {
    TracedThread* thread = parts_->threads.find(tid);
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
    if (parts_->core_dump.is_in_progress()) {
        return;
    }
    parts_->interrupted.on_interrupt(tid);
    ptrace(PTRACE_INTERRUPT, tid.value(), nullptr, nullptr);
}

// Its signal is not owed any more from here on: the thread that the kernel wakes may get our CPU at
// once, and if we were killed then the guardian would send it a second time.
void Target::detach(Tid tid, int signal) {
    record_->settle(tid);
    ptrace(PTRACE_DETACH, tid.value(), nullptr, signal);
    parts_->remove_thread(tid);
}

bool Target::stop_and_defer(Tid tid) {
    const TracedThread* thread = parts_->threads.find(tid);
    if (thread == nullptr) {
        return false;
    }
    if (thread->state == TracedThread::State::stopped) {
        return true;
    }
    interrupt(tid);
    return await_and_defer(tid);
}

bool Target::await_and_defer(Tid tid) {
    auto event = parts_->waits.wait_for_stop(tid);
    bool in_group_stop = false;
    // Whoever else has asked for a stop gets it first.
    while (event && is_stopped(tid) && stop_signal(tid) == 0 &&
           StoppedThread(tid).has_pending_exception()) {
        in_group_stop = in_group_stop || std::holds_alternative<GroupStop>(*event);
        resume(tid);
        event = parts_->waits.wait_for_stop(tid);
    }
    if (in_group_stop && is_stopped(tid)) {
        interrupt(tid); // told anew, as soon as the thread goes on
    }
    if (event) {
        defer(*event);
    }
    return is_stopped(tid);
}

bool Target::consume_stop(Tid tid) {
    const int signal = stop_signal(tid);
    siginfo_t info{};
    const bool is_owed =
        signal != 0 &&
        !(signal == SIGTRAP && handler_ != nullptr && handler_->move_hit_to_slot(tid)) &&
        ptrace(PTRACE_GETSIGINFO, tid.value(), nullptr, &info) == 0;
    if (is_owed) {
        record_->settle(tid, signal); // it may have been taken before
        record_->owe(tid, info);
    }
    Tracer::consume_stop(tid);
    return is_owed;
}

void Target::drop_stop_signal(Tid tid) {
    if (TracedThread* thread = parts_->threads.find(tid)) {
        thread->stop_signal = 0;
    }
}

void Target::adopt_child(Tid tid) {
    parts_->interrupted.forget(tid);
    parts_->add_thread(tid) = TracedThread{
        .state = TracedThread::State::stopped, .stop_signal = 0, .is_child_process = true};
}

Result<long> Target::system_call(Tid tid, long number,
                                 std::initializer_list<std::uint64_t> arguments) {
    return parts_->calls.perform(tid, number, arguments);
}

Result<long> Target::system_call_in_copy(Tid tid, RemoteMemory& memory, long number,
                                         std::initializer_list<std::uint64_t> arguments) {
    return parts_->calls.perform_in_copy(tid, memory, number, arguments);
}

Result<std::vector<long>> Target::system_calls_in_copy(Tid tid, RemoteMemory& memory,
                                                       std::span<const RemoteCall> calls) {
    return parts_->calls.perform_in_copy(tid, memory, calls);
}

} // namespace memleax
