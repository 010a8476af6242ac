// SPDX-License-Identifier: GPL-3.0-or-later
/// A process that is watched: its threads are seized, stopped, resumed and let go of.
#pragma once

#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "arch.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/remote_call.hpp"
#include "memleax/target/remote_memory.hpp"
#include "memleax/target/spawn_attributes.hpp"
#include "memleax/target/stop_event.hpp"
#include "memleax/target/thread_table.hpp"
#include "memleax/target/tracer.hpp"

namespace memleax {

class Patience;
class ThreadBorrower;
class ThreadSignals;

/// Attached to all threads of one process, by PTRACE_SEIZE (never PTRACE_ATTACH: it sends SIGSTOP).
/// Seizing stops nobody.
///
/// Everything happens in the tracer's thread (ptrace is bound to the tracer *thread*). When
/// that thread ends the kernel lets go of what is still seized, without a stop for threads that run
/// or sleep; the owner uses this to leave sleepers undisturbed.
///
/// A thread that has gone is no error: calls about it do nothing and return false, and its
/// ThreadGone event comes or has come.
///
/// It owns what deals with one subject each: signals() and borrower() for everybody, and its other
/// Parts, which src/target/ alone knows.
class Target {
  public:
    /// Seizes a running process. check_watchable() comes before. `record` is told of all that is
    /// changed; null: a new one of the tracer's.
    static Result<std::unique_ptr<Target>> seize(Tracer& tracer, Tid pid,
                                                 std::shared_ptr<RecoveryRecord> record = nullptr);
    /// Starts a program (as execvpe(3) would) and seizes it at its exec: the
    /// process stands at the new program's first instruction, and next_event() gives a QuietStop.
    static Result<std::unique_ptr<Target>> launch(Tracer& tracer,
                                                  const std::vector<std::string>& command,
                                                  const SpawnAttributes& inherited);
    /// Makes a child of `parent`, which stands in its ChildStop or (one that shared its parent's
    /// memory) in its ExecStop, a process in its own right. After a failure it is still the
    /// parent's. It stands as it stood, and next_event() gives a QuietStop.
    static Result<std::unique_ptr<Target>> take_over(Target& parent, Tid child);
    /// While it is watched: seizes those of whom the kernel has told nobody (CLONE_UNTRACED),
    /// threads, and processes that share the memory.
    Result<void> seize_untraced();
    /// Did it run before it was seized, so that there may be such already?
    [[nodiscard]] bool was_running() const { return was_running_; }
    ~Target();
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

    [[nodiscard]] Tid pid() const { return pid_; }
    /// Whose the stops are; it must outlive the Target, or be taken back.
    void set_handler(StopHandler* handler) { handler_ = handler; }
    [[nodiscard]] StopHandler* handler() const { return handler_; }
    [[nodiscard]] RemoteMemory& memory() { return memory_; }
    [[nodiscard]] RecoveryRecord& record() { return *record_; }
    /// For what outlives the Target, and may have to be put back then.
    [[nodiscard]] const std::shared_ptr<RecoveryRecord>& shared_record() const { return record_; }
    /// Would somebody put it back, should we be killed?
    [[nodiscard]] bool is_guarded() const;
    /// After exec: the new program's memory.
    Result<void> reopen_memory();

    using Wait = Tracer::Wait;
    /// As Tracer::next_stop(), but of this process only; the others' stops wait for their turn.
    std::optional<StopEvent> next_event(Wait wait);
    /// For a thread that stays stopped in a TrapStop or SignalStop, or is to execute something for
    /// us: next_event() does not tell of it again, and should we die, the kernel delivers nothing.
    /// Its signal is owed to it until it goes on (true); a hit of ours is none.
    bool consume_stop(Tid tid);
    /// Gives an event back, to be delivered before any new one.
    void defer(const StopEvent& event);
    [[nodiscard]] bool has_deferred(Tid tid) const;
    /// Is any stop of this process known that has not been told?
    [[nodiscard]] bool has_deferred() const;

    /// Known threads and vfork-like children.
    [[nodiscard]] const ThreadTable::Map& threads() const;
    [[nodiscard]] bool is_stopped(Tid tid) const;
    /// Children whose birth was reported, but who have not yet reported themselves.
    [[nodiscard]] const std::set<Tid>& expected_children() const;

    /// The signals of its stopped threads: held back, sent again, let through first.
    [[nodiscard]] ThreadSignals& signals();
    /// Which of its threads to stop when it does not matter which.
    [[nodiscard]] ThreadBorrower& borrower();
    [[nodiscard]] const ThreadBorrower& borrower() const;

    // Of a stopped thread (StoppedThread has its registers):
    /// What it is about to get, if it is stopped for that; 0: nothing, or it is gone.
    [[nodiscard]] int stop_signal(Tid tid) const;
    /// Has the stop interrupted a system call that it was asleep in? `regs` are its registers.
    [[nodiscard]] bool was_asleep(Tid tid, const arch::Registers& regs) const;
    /// Also of one that is asleep in the kernel.
    [[nodiscard]] std::optional<RemoteAddr> stack_pointer(Tid tid) const;
    /// Lets it run, with its signal delivered (its siginfo untouched), or `signal` 0.
    void resume(Tid tid, int signal = 0);
    /// The signal of this stop was the effect of our breakpoint, and is not to be delivered.
    void drop_stop_signal(Tid tid);
    /// Keeps a group-stopped thread stopped until SIGCONT, while events go on being reported.
    void listen(Tid tid);
    /// Makes the thread perform a system call of ours. Its registers, signal mask, the call in
    /// which it was interrupted and its pending signals are as before. The result is the kernel's
    /// (-errno).
    Result<long> system_call(Tid tid, long number, std::initializer_list<std::uint64_t> arguments);
    /// The same in a stopped thread of another address space: a forked child's, a new program's.
    Result<long> system_call_in_copy(Tid tid, RemoteMemory& memory, long number,
                                     std::initializer_list<std::uint64_t> arguments);
    /// Several of them, none of which unmaps the page of our SIGTRAP handler.
    Result<std::vector<long>> system_calls_in_copy(Tid tid, RemoteMemory& memory,
                                                   std::span<const RemoteCall> calls);
    /// Lets go of it for good, with `signal` delivered.
    void detach(Tid tid, int signal = 0);
    /// To be called when the process is as it should be left, while threads that sleep are still
    /// seized: each that stops from now on, while others are waited for, is let go of.
    void let_go_of_stops() { lets_go_ = true; }
    [[nodiscard]] bool lets_go_of_stops() const { return lets_go_; }
    /// The stops of all processes that have come: those that have been left go on, and the others'
    /// stand in line. For who waits long for something else than a stop of this one.
    void put_off_stops();

    /// Expected children that were killed before they could report themselves.
    void forget_dead_children();
    /// Of a forked child in its first stop: the thread that has made it. Nothing if that was
    /// killed.
    [[nodiscard]] std::optional<Tid> await_parent_of(Tid child) const;
    /// In the process's ExecStop: the next child that it has made before, and whose ChildStop is
    /// still to be handled. One that is expected may need a CPU to get there, and is waited for as
    /// long as the patience lasts; kMostMsForNewborns, as all that is watched waits, too.
    std::optional<ChildStop> await_newborn(const Patience& patience);
    static constexpr std::int64_t kMostMsForNewborns = 100;
    /// Takes a vfork-like child, which stands in its ChildStop, for one of the threads.
    void adopt_child(Tid tid);
    /// Is it a child by vfork, or alike, which shares the memory and is another process?
    [[nodiscard]] bool is_child_process(Tid tid) const;
    /// Has another program been executed since this stop of the thread's was told, and been waited
    /// for by somebody else, so that its ExecStop is yet to be told? (Another thread's exec takes
    /// the first one out of any stop, and takes its id: fs/exec.c, de_thread.) It is not to be
    /// touched before that; resume() does not. As long as nobody has waited for it, the kernel lets
    /// nobody touch it (ptrace(2), since Linux 5.13).
    [[nodiscard]] bool has_executed(Tid tid) const;

    // Of a running thread:
    /// Asks for a QuietStop; not one of a process that dumps core, whose threads all end.
    void interrupt(Tid tid);
    /// Stops this thread, if it is not stopped, and puts what stopped it aside for next_event(). It
    /// then has no pending exception. False if it is gone, or waits in the kernel where it cannot
    /// be stopped: it then stops before it gets back to its own code.
    bool stop_and_defer(Tid tid);
    /// The same, of a thread that has been interrupted. Where several are to be stopped, interrupt
    /// all of them first: then none of them keeps a CPU from one that needs it to stop.
    bool await_and_defer(Tid tid);
    /// What was put aside for this thread, if anything was: it is the caller's to deal with.
    [[nodiscard]] std::optional<StopEvent> take_deferred(Tid tid);

    struct Parts; ///< src/target/target_parts.hpp
    [[nodiscard]] Parts& parts() { return *parts_; }

  private:
    Target(Tracer& tracer, Tid pid, RemoteMemory memory,
           std::shared_ptr<RecoveryRecord> record = nullptr);
    /// All that are not seized. `reaped`: those of which nobody will tell the end.
    Result<void> seize_others(std::vector<Tid>* reaped);
    /// Unless a thread that was not, and has executed a program, has taken its id.
    [[nodiscard]] bool is_seized(Tid tid) const;

    StopHandler* handler_ = nullptr;
    Tid pid_;
    RemoteMemory memory_;
    std::shared_ptr<RecoveryRecord> record_;
    bool was_running_ = false;
    bool lets_go_ = false; ///< see let_go_of_stops()
    std::unique_ptr<Parts> parts_;
};

} // namespace memleax
