// SPDX-License-Identifier: GPL-3.0-or-later
/// A process that is watched: its threads, their stops, their registers. Only this and the Tracer
/// call ptrace and waitpid.
#pragma once

#include <array>
#include <csignal>
#include <initializer_list>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "arch.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/proc/process_info.hpp"
#include "memleax/proc/system_call_kind.hpp"
#include "memleax/target/recovery_record.hpp"
#include "memleax/target/remote_memory.hpp"
#include "memleax/target/spawn_attributes.hpp"
#include "memleax/target/stop_event.hpp"
#include "memleax/target/tracer.hpp"

namespace memleax {

/// A thread that we trace.
struct TracedThread {
    enum class State {
        running,  ///< or asleep in the kernel
        stopped,  ///< in a ptrace-stop that has been reported to us
        listening ///< in a group-stop, kept there by PTRACE_LISTEN
    };
    State state = State::running;
    /// Stopped in the middle of clone, fork or exec (true), whose result the kernel has not yet put
    /// into the registers: they must not be replaced before that call is over.
    bool in_system_call = false;
    bool in_vfork = false; ///< and it will not be over before the child has its own memory
    int stop_signal = 0;   ///< of a signal-delivery-stop: what it is about to get; 0 otherwise
    /// The system call that it was asleep in when we interrupted it, as /proc tells; noted only
    /// where the registers do not tell it any more (arch::kResultReplacesArgument).
    std::optional<KernelState> asleep_in = {};
    /// Stands before a system call that we made it begin again, or has begun it since.
    struct CallBegunAgain {
        CodeAddr pc;
        RemoteAddr sp;
        std::uint64_t first_argument;
    };
    std::optional<CallBegunAgain> begun_again = {};
    bool is_child_process = false; ///< a vfork-like child, which shares the target's memory
};

class HarmlessMoment;

/// A system call that a thread has made itself.
struct SystemCallMade {
    std::array<std::uint64_t, 4> arguments{};
    long result = 0; ///< see is_errno()
};

/// Attached to all threads of one process, by PTRACE_SEIZE (never PTRACE_ATTACH: it sends SIGSTOP).
/// Seizing stops nobody.
///
/// Everything happens in the tracer's thread (ptrace is bound to the tracer *thread*). When
/// that thread ends the kernel lets go of what is still seized, without a stop for threads that run
/// or sleep; the owner uses this to leave sleepers undisturbed.
///
/// A thread that has gone is no error: calls about it do nothing and return false, and its
/// ThreadGone event comes or has come.
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
    ~Target();
    Target(const Target&) = delete;
    Target& operator=(const Target&) = delete;

    [[nodiscard]] Tid pid() const { return pid_; }
    /// Whose the stops are; it must outlive the Target, or be taken back.
    void set_handler(StopHandler* handler) { handler_ = handler; }
    [[nodiscard]] StopHandler* handler() const { return handler_; }
    [[nodiscard]] RemoteMemory& memory() { return memory_; }
    [[nodiscard]] RecoveryRecord& record() { return *record_; }
    /// After exec: the new program's memory.
    Result<void> reopen_memory();

    using Wait = Tracer::Wait;
    /// As Tracer::next_stop(), but of this process only; the others' stops wait for their turn.
    std::optional<StopEvent> next_event(Wait wait) { return tracer_.next_stop_of(*this, wait); }
    /// For a thread that stays stopped in a TrapStop or SignalStop, or is to execute something for
    /// us: next_event() does not tell of it again, and should we die, the kernel delivers nothing.
    /// Its signal is owed to it until it goes on; a hit of ours is none.
    void consume_stop(Tid tid);
    /// Gives an event back, to be delivered before any new one.
    void defer(const StopEvent& event) { tracer_.defer(*this, event); }

    [[nodiscard]] bool has_deferred(Tid tid) const;
    /// Has the process begun another program, and the ExecStop is yet to be told? Then its memory
    /// is another one than we know.
    [[nodiscard]] bool has_executed();
    /// After a stopped thread has vanished: only the end of the process does that, or a thread that
    /// executes a program. Waits until it is clear which, for as long as that may take; what
    /// happened meanwhile is told by next_event() all the same.
    [[nodiscard]] bool executes_instead_of_ending();

    /// Known threads and vfork-like children.
    [[nodiscard]] const absl::flat_hash_map<Tid, TracedThread>& threads() const { return threads_; }
    [[nodiscard]] bool is_stopped(Tid tid) const;
    /// Children whose birth was reported, but who have not yet reported themselves.
    [[nodiscard]] const std::set<Tid>& expected_children() const { return expected_children_; }

    // Of a stopped thread:
    [[nodiscard]] bool get_registers(Tid tid, arch::Registers* regs) const;
    bool set_registers(Tid tid, const arch::Registers& regs);
    /// All registers in which a program may keep a pointer, those for vectors included, as words;
    /// also some that are none. Empty if the thread is gone.
    [[nodiscard]] std::vector<std::uint64_t> register_words(Tid tid) const;
    /// The bits of a return address that are a signature (pointer authentication); 0 where the CPU
    /// knows no such thing.
    [[nodiscard]] std::uint64_t signature_mask(Tid tid) const;
    /// What it is about to get, if it is stopped for that; 0: nothing, or it is gone.
    [[nodiscard]] int stop_signal(Tid tid) const;
    /// Also of one that is asleep in the kernel.
    [[nodiscard]] std::optional<RemoteAddr> stack_pointer(Tid tid) const;
    /// Changes only the pc; `regs` are the thread's registers as just read, and are kept up to
    /// date.
    bool set_pc(Tid tid, arch::Registers* regs, CodeAddr pc);
    /// Has an instruction of the thread (a breakpoint, one that faults) raised a signal that it has
    /// not taken yet? An interrupt or a group-stop that comes at the same time is reported first
    /// (kernel/signal.c, get_signal), with the pc behind a breakpoint already. Resumed, the thread
    /// stops again before any other instruction, with the TrapStop or SignalStop.
    [[nodiscard]] bool has_pending_exception(Tid tid) const;
    /// Was this SIGTRAP raised by a breakpoint instruction (and not by kill, a step, ...)?
    [[nodiscard]] bool is_breakpoint_trap(Tid tid) const;
    /// Bit n-1 for signal n.
    [[nodiscard]] std::optional<std::uint64_t> signal_mask(Tid tid) const;
    void set_signal_mask(Tid tid, std::uint64_t mask);
    /// A signal that was taken out of its stop, with its payload.
    void send_again(Tid tid, const siginfo_t& info);
    /// A thread that stands in a signal's stop is to go on without it. It stays owed to it. False:
    /// there are too many already.
    bool hold_signal(Tid tid);
    /// Sends one of the signals that were held back from a thread; it stops with it. False if there
    /// is none.
    bool send_held(Tid tid);
    /// All of them, to whomever they belong.
    void send_all_held();
    /// If it stands in a QuietStop and has a signal pending that it does not block, lets it run
    /// into that signal's stop, which next_event() tells of in place of the other.
    void advance_to_signal(Tid tid);
    /// Lets a stopped thread, whose stop stands in line, run on with its signal for a moment.
    void let_run_on(Tid tid);
    /// Resumes it with the signal that it is stopped for, if any; it stops in a QuietStop, or by
    /// the signal's effect, before it executes anything else (its handler's first instruction).
    void go_past_signal(Tid tid);
    /// Lets it get the signal that it is stopped for, and stops it again before it executes
    /// anything else; puts that stop aside for next_event(). False if it is gone.
    bool deliver_first(Tid tid);
    /// Is it in sigsuspend, ppoll or their like, which put another mask in force for a while?
    [[nodiscard]] bool has_temporary_mask(Tid tid) const;
    /// If this stop, or a signal that the target ignores and that only a traced thread wakes up
    /// for, has ended a system call with EINTR that without us would have gone on: begins it anew.
    /// `signal`: what it is about to get, or 0.
    void begin_interrupted_call_again(Tid tid, int signal);
    /// If a handler of this signal is to run before such a thread has got back into its call: ends
    /// the call with EINTR after all, as the handler would have. The thread may be waiting for
    /// nothing else.
    void end_call_begun_again(Tid tid, int signal);
    /// Does the process dump core, as a signal that we have let through made it?
    bool dumps_core();
    /// Lets it run, with its signal delivered (its siginfo untouched), or `signal` 0.
    void resume(Tid tid, int signal = 0);
    /// The signal of this stop was the effect of our breakpoint, and is not to be delivered.
    void drop_stop_signal(Tid tid);
    /// Keeps a group-stopped thread stopped until SIGCONT, while events go on being reported.
    void listen(Tid tid);
    /// Executes one instruction and waits for it; a signal that comes between is kept for later. If
    /// the instruction faults, that SignalStop is deferred.
    Result<void> step(Tid tid);
    /// Lets a stopped thread go on to its next system call but rt_sigprocmask(2). If that is this
    /// one, with this first argument, also through it: the thread is then stopped behind it, and
    /// what it asked for is returned. Otherwise nothing; the thread is stopped before its call, or
    /// what stopped it earlier has been put aside for next_event(), or it is gone. For a place from
    /// which a thread gets to that call without waiting for others.
    std::optional<SystemCallMade> follow_system_call(Tid tid, long number,
                                                     std::uint64_t first_argument);
    /// Makes the thread perform a system call of ours. Its registers, signal mask, the call in
    /// which it was interrupted and its pending signals are as before. The result is the kernel's
    /// (-errno).
    Result<long> system_call(Tid tid, long number, std::initializer_list<std::uint64_t> arguments);
    /// The same in a stopped thread of another address space: a forked child's, a new program's.
    Result<long> system_call_in_copy(Tid tid, RemoteMemory& memory, long number,
                                     std::initializer_list<std::uint64_t> arguments);
    /// Where arch::kParkingBytes lie in a page of ours, for system_call(). Without them, the first
    /// remote call is made in the padding behind some module's code.
    void set_parking(std::optional<CodeAddr> parking) { parking_ = parking; }
    /// Lets go of it for good, with `signal` delivered.
    void detach(Tid tid, int signal = 0);
    /// To be called when the process is as it should be left, while threads that sleep are still
    /// seized: each that stops from now on, while others are waited for, is let go of.
    void let_go_of_stops() { lets_go_ = true; }

    /// Expected children that were killed before they could report themselves.
    void forget_dead_children();
    /// Takes a vfork-like child, which stands in its ChildStop, for one of the threads.
    void adopt_child(Tid tid);

    // Of a running thread:
    /// Asks for a QuietStop; not one of a process that dumps core, whose threads all end.
    void interrupt(Tid tid);
    /// Stops this thread, if it is not stopped, and puts what stopped it aside for next_event(). It
    /// then has no pending exception. False if it is gone, or waits in the kernel where it cannot
    /// be stopped: it then stops before it gets back to its own code.
    bool stop_and_defer(Tid tid);
    /// Stops all threads in this way, and newborns with them. What stopped each is put aside: as
    /// long as nobody asks next_event(), all stand still, and then each goes on as after any stop.
    /// EBUSY: one is in a transfer that would be cut short; EAGAIN: one cannot be stopped now, or
    /// the process is stopped by job control, or executes another program. Some are stopped then.
    Result<void> stop_all_and_defer();
    /// What was put aside for this thread, if anything was: it is the caller's to deal with.
    [[nodiscard]] std::optional<StopEvent> take_deferred(Tid tid);
    /// Is it stopped, or would a stop go unnoticed, as far as can be seen?
    [[nodiscard]] bool minds_no_stop(Tid tid) const;
    enum class OnSignal { give_up, wait_on };
    /// Stops one thread, of all the one that minds least. If each would have a transfer cut short
    /// (system_call_kind.hpp), waits for a better moment, some seconds, or until a signal of ours
    /// comes; then the Error is EBUSY. EAGAIN: the process lives, but none can be stopped now. They
    /// are asked to stop, and next_event() tells when one does.
    Result<Tid> borrow_thread(OnSignal on_signal = OnSignal::give_up);
    /// Stops a child process that shares the memory: as good for a call about that, and not for one
    /// about signals. EAGAIN as above.
    Result<Tid> borrow_child();
    /// Those that stand in vfork's stop go on into their wait for the child, and stop behind it.
    void enter_vfork_waits();
    /// As long as nothing of ours is in the target, and none of its threads can be stopped: they
    /// may wait for children that we hold. Those go on, and newborns with memory of their own,
    /// which have nothing of ours in it, are let go of. Takes a millisecond.
    void let_children_go_on();
    /// Is it asleep in a transfer that a stop would cut short?
    [[nodiscard]] bool is_in_transfer(Tid tid) const {
        return !is_stopped(tid) && stop_cost(tid) == StopCost::cut_short;
    }
    /// Would borrow_thread() find one at once?
    [[nodiscard]] bool has_thread_to_borrow() const;
    /// Waits until none of these is in one, for as long as borrow_thread() would, whatever signals
    /// of ours come. Those that still are.
    std::set<Tid> wait_out_transfers(const std::set<Tid>& threads);

  private:
    friend class Tracer;
    Target(Tracer& tracer, Tid pid, RemoteMemory memory,
           std::shared_ptr<RecoveryRecord> record = nullptr);
    TracedThread& add_thread(Tid tid);
    void remove_thread(Tid tid);
    Result<void> seize_threads();
    /// Has a thread that was not seized yet, and has executed a program, taken its id?
    [[nodiscard]] bool has_been_replaced(Tid tid) const;
    [[nodiscard]] bool is_child_process(Tid tid) const;
    /// Why: it has ended, or all its threads wait in the kernel (EAGAIN).
    [[nodiscard]] Error cannot_be_stopped() const;
    [[nodiscard]] bool has_deferred_exec(Tid tid) const;
    /// What a stop costs a thread; borrow_thread() prefers them in this order.
    enum class StopCost {
        nothing,
        begins_again, ///< the call that it is asleep in, by our doing
        runs,         ///< nothing, unless it is awake for a moment in a transfer
        limit_anew,   ///< and its time limit begins anew
        may_fail,
        cut_short,
        uninterruptible, ///< it cannot be stopped now
        gone
    };
    [[nodiscard]] StopCost stop_cost(Tid tid) const;
    [[nodiscard]] StopEffect effect_of_stop_in(Tid tid, const KernelState& kernel) const;
    struct Candidate {
        bool is_filtered = false; ///< by seccomp, which we may not suspend
        bool is_stopped = false;
        StopCost cost{}; ///< of a stop
        Tid tid;
        /// The best first.
        [[nodiscard]] auto order() const {
            return std::make_tuple(is_filtered, !is_stopped, cost, tid);
        }
    };
    std::vector<Candidate> candidates_to_borrow(HarmlessMoment* moment) const;
    /// What it costs, by what was seen before, too.
    StopCost stop_cost(Tid tid, HarmlessMoment* moment) const;
    Result<Tid> try_to_borrow(const std::vector<Candidate>& candidates);
    /// Threads that have stopped by themselves stay so: their events come first from next_event().
    void defer_what_has_come();
    static Result<CodeAddr> find_syscall_instruction(Tid pid, RemoteMemory& memory);
    /// A system call of ours in a thread of `process`, whose memory that is; `parking` as in
    /// set_parking().
    Result<long> perform(Tid tid, Tid process, RemoteMemory& memory,
                         std::optional<CodeAddr> parking, long number,
                         std::span<const std::uint64_t> arguments);
    Result<void> prepare_for_system_call(Tid tid);
    Result<long> execute_system_call(Tid tid, const arch::Registers& saved, CodeAddr instruction,
                                     long number, std::span<const std::uint64_t> arguments);
    Result<void> run_system_call(Tid tid, CodeAddr instruction, bool to_signal_stop);
    [[nodiscard]] bool has_left(Tid tid, CodeAddr instruction) const;
    Result<void> settle(Tid tid);
    /// Before the registers of an interrupted thread are replaced for a while, where the kernel
    /// does not see any more, when they are back, in which call it was: what it would do then.
    void finish_interruption(Tid tid, arch::Registers* regs);
    [[nodiscard]] bool is_at_system_call(CodeAddr pc);
    [[nodiscard]] Tid group_of(Tid tid) const;
    /// Waits for this thread; the status if it is stopped.
    std::optional<int> await_stop_of(Tid tid);
    /// A status of one of its own.
    std::optional<StopEvent> decode(Tid tid, int status);
    void restore_payload(Tid tid, int signal);
    StopEvent decode_stop(Tid tid, TracedThread& thread, int status);
    void on_exec(Tid tid);
    /// Is this thread, which has been stopped for something else, another by now? The one that
    /// executes a program gets the first thread's id.
    [[nodiscard]] bool stands_in_another_program(Tid tid) const;
    /// The first stop of a child process of this one.
    [[nodiscard]] StopEvent child_stop(Tid child) const;
    std::optional<StopEvent> wait_for(Tid tid, int flags);
    /// All that wait for us now stand in line, so that each gets its turn.
    void collect_backlog();
    /// Waits until a thread stops that was asked to. Nothing if
    ///  - it is the first thread, and ends: the kernel tells of that only when it is the last one;
    ///  - it waits in the kernel where nothing reaches it, for a child by vfork, say, which may
    ///    itself wait for us. It stops before it gets back to its own code.
    std::optional<StopEvent> wait_for_stop(Tid tid);
    /// While one thread is waited for, after so many looks at it. Nobody may wait in the kernel for
    /// it alone: an exec is not over before each thread that died for it has been reaped.
    void pause_between_looks(Tid tid, int looks);
    void reap_dead(Tid process);

    Tracer& tracer_;
    StopHandler* handler_ = nullptr;
    Tid pid_;
    RemoteMemory memory_;
    absl::flat_hash_map<Tid, TracedThread> threads_;
    std::set<Tid> expected_children_;
    bool lets_go_ = false;         ///< see let_go_of_stops()
    std::set<Tid> early_children_; ///< reported themselves before their parent's BirthStop
    std::shared_ptr<RecoveryRecord> record_;
    std::optional<CodeAddr> parking_;
    std::optional<CodeAddr> padding_; ///< where the last call without parking was made
    /// Payloads of signals that carry ours instead, until their stops.
    absl::flat_hash_map<Tid, siginfo_t> sent_again_;
    absl::flat_hash_map<Tid, std::vector<siginfo_t>> held_;
    /// The last of kCoreSignals that a thread was resumed with, until that thread's next stop.
    std::optional<std::pair<Tid, int>> core_signal_;
};

} // namespace memleax
