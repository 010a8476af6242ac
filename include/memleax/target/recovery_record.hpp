// SPDX-License-Identifier: GPL-3.0-or-later
/// What is changed in a target at this moment, kept where it outlives us: shared memory, out of
/// which the guardian puts everything back when this process has been killed.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <csignal>
#include <pthread.h>

#include "arch.hpp"
#include "memleax/base/error.hpp"
#include "memleax/base/types.hpp"
#include "memleax/target/code_patch.hpp"
#include "memleax/target/stopped_thread.hpp"

namespace memleax {

/// One process's entry. Each line is written before the change in the target that it tells of, so a
/// reader finds there all that was done, and perhaps one thing that was not.
///
/// Lies in shared memory, which starts as zeros: an empty entry. Written by one thread, the tracer;
/// read when that is dead, or by itself.
struct RecoveryRecord {
    static constexpr std::size_t kMaxBreakpoints = std::size_t{1} << 20;
    static constexpr std::size_t kMaxRegions = 4000;
    static constexpr std::size_t kMaxBlocking = std::size_t{1} << 15;
    static constexpr std::size_t kMaxOwed = 256;
    static constexpr std::size_t kMaxAgentRanges = 8;
    static constexpr std::size_t kMaxAgentData = 40;
    static constexpr std::size_t kMaxCounters = 1024;

    struct Breakpoint {
        CodePatch patch;    ///< empty: unused
        std::uint64_t slot; ///< 0: none
        /// The whole instruction, and what follows it.
        std::array<std::uint8_t, arch::kMaxEntryBytes> code;
        std::uint8_t code_bytes;  ///< how many are known
        bool holds;               ///< arch::kSlotHolds
        bool takes_jump;          ///< the slot has all the instructions under a jump
        std::uint64_t stands_for; ///< see memleax::Breakpoint; 0: itself
    };
    /// A semaphore of a probe; see RaisedCounters.
    struct Counter {
        enum class Step : std::uint8_t { unused, raising, raised, lowering };
        std::uint64_t address;
        std::uint16_t before; ///< what is there before the step is done
        std::atomic<Step> step;
    };
    /// The kernel's struct sigaction (asm-generic/signal.h with SA_RESTORER), alike on all our
    /// CPUs.
    struct SignalAction {
        std::uint64_t handler;
        std::uint64_t flags;
        std::uint64_t restorer;
        std::uint64_t mask;
        /// Neither SIG_DFL (0) nor SIG_IGN (1).
        [[nodiscard]] bool has_handler() const { return handler > 1; }
        friend bool operator==(const SignalAction&, const SignalAction&) = default;
    };
    /// A thread that blocks SIGTRAP, as it should be left; see TrapSignal.
    struct BlockingThread {
        std::int32_t tid; ///< 0: unused
        std::uint32_t unblocked;
        std::uint64_t mask;
    };
    /// A signal that was taken out of its thread's stop, and that the thread has not got yet.
    struct OwedSignal {
        std::atomic<std::int32_t> tid; ///< 0: unused
        siginfo_t info;
    };
    /// At most one of these is left unblocked in a thread that is executing something for us
    /// (src/target/stand_in_signal.hpp). The kernel ignores them by default.
    static constexpr std::array<int, 3> kStandIns{SIGURG, SIGWINCH, SIGCHLD};
    /// A thread that is executing something for us; all of it goes back.
    struct BorrowedThread {
        std::atomic<std::int32_t> tid_of_mask; ///< 0: nobody's mask is changed
        std::uint64_t mask;
        std::uint64_t lent_mask;       ///< that is in force for us
        std::atomic<std::int32_t> tid; ///< 0: nobody's registers are exchanged
        arch::Registers registers;
        DiscardedRegisters discarded;
        /// Where it executes the system call. It stays in this code if nobody stops it behind that
        /// call, or goes on by itself with its own registers and mask (WayBack).
        AddrRange code;
        /// What was there before, if that is not our own page.
        std::array<std::uint8_t, 16> code_bytes;
        std::uint32_t code_byte_count;
        /// Where it leaves the call's result on its way back; 0: nowhere, or it stays.
        std::uint64_t result_at;
        std::int64_t number;        ///< of the system call
        std::uint64_t mapped_bytes; ///< what it maps, if it is mmap
        /// Where that is, until the line that tells what it is for has been written; 0: nothing.
        std::atomic<std::uint64_t> mapped;
        AddrRange unmapped; ///< if it is munmap
    };

    std::atomic<std::int32_t> pid; ///< 0: nothing is changed anywhere
    std::uint64_t start_time;      ///< of the process (ProcessInfo); known before `pid` is
    /// copy_for() has made it. What the child unmaps by itself, and what is lowered there, nobody
    /// notes.
    std::atomic<std::uint32_t> is_copy;
    BorrowedThread borrowed;
    /// There may be copies of the process, its children, that are to be ended and reaped
    /// (ProcessCopy).
    std::atomic<std::uint32_t> has_copy;
    std::atomic<std::uint32_t> owed_count;
    std::array<OwedSignal, kMaxOwed> owed;
    AddrRange handler; ///< the page with our SIGTRAP handler; empty: none
    std::atomic<std::uint32_t> handler_in_force;
    /// The target has set an action without our seeing it, and may have been given ours as the one
    /// before: it may put that back when we have left, so the handler's page must stay.
    std::atomic<std::uint32_t> handler_may_be_saved;
    std::atomic<std::uint32_t> target_action_index;
    std::array<SignalAction, 2> target_actions; ///< see target_action()
    /// The inline engine's: its code, and its data, of which the first is agent::Data.
    std::atomic<std::uint32_t> agent_code_count;
    std::array<AddrRange, kMaxAgentRanges> agent_code;
    std::atomic<std::uint32_t> agent_data_count;
    std::array<AddrRange, kMaxAgentData> agent_data;
    std::array<Counter, kMaxCounters> counters;
    std::atomic<std::uint32_t> region_count;
    std::array<AddrRange, kMaxRegions> regions;
    std::array<BlockingThread, kMaxBlocking> blocking;
    std::atomic<std::uint32_t> breakpoint_count;
    std::array<Breakpoint, kMaxBreakpoints> breakpoints;

    /// SIGTRAP's action as the target has set it; what is in force is ours. Always a whole one,
    /// whenever the tracer dies.
    [[nodiscard]] const SignalAction& target_action() const {
        return target_actions[target_action_index.load() % target_actions.size()];
    }
    void set_target_action(const SignalAction& action) {
        const std::uint32_t next = target_action_index.load() + 1;
        target_actions[next % target_actions.size()] = action;
        target_action_index.store(next);
    }

    void set_handler(AddrRange page);
    /// Strikes off the handler's page, a region, or a range of the agent's, that the target has
    /// just unmapped, and may map something else at: an empty range stays in its place.
    void on_unmapped(AddrRange range);
    /// Is there a range of ours that begins there?
    [[nodiscard]] bool tells_of(std::uint64_t begin) const;

    /// The index of the entry; nothing if there is no room, as in a copy (`is_copy`).
    std::optional<std::uint32_t> add_breakpoint(const CodePatch& patch,
                                                std::span<const std::uint8_t> code,
                                                std::optional<CodeAddr> slot, bool takes_jump);
    /// Another patch of the same place, in force from now on. It is known by what was there, or by
    /// what comes there, at each moment of the change.
    void set_patch(std::uint32_t index, const CodePatch& patch);
    [[nodiscard]] bool add_region(AddrRange region);
    [[nodiscard]] bool add_agent_code(AddrRange range);
    [[nodiscard]] bool add_agent_data(AddrRange range);
    /// What a child has that was forked at this moment: all that is in the memory. It takes as much
    /// of ours as the breakpoints do that there are.
    [[nodiscard]] std::shared_ptr<RecoveryRecord> copy_for(std::int32_t child,
                                                           std::uint64_t childs_start_time) const;
    /// The address space, or all that was in it, is gone.
    void forget_memory();
    void set_blocking(Tid tid, std::uint64_t mask, bool unblocked);
    void forget_blocking(Tid tid);
    /// Beyond kMaxOwed nothing is noted.
    void owe(Tid tid, const siginfo_t& info);
    /// All that is owed to it from now on.
    void set_owed(Tid tid, std::span<const siginfo_t> signals) {
        if (owed_count.load(std::memory_order_relaxed) != 0 || !signals.empty()) {
            replace_owed(tid, signals);
        }
    }
    /// It gets one of these signals now, or is sent it; 0: it goes on, and nothing is owed to it.
    void settle(Tid tid, int signal = 0) {
        if (owed_count.load(std::memory_order_relaxed) != 0) {
            settle_owed(tid, signal);
        }
    }
    /// It is sent just this one. Others of its number stay owed.
    void settle(Tid tid, const siginfo_t& info) {
        if (owed_count.load(std::memory_order_relaxed) != 0) {
            settle_owed(tid, info);
        }
    }

  private:
    void replace_owed(Tid tid, std::span<const siginfo_t> signals);
    void settle_owed(Tid tid, int signal);
    void settle_owed(Tid tid, const siginfo_t& info);
};

/// A memory file with a lock and the entries of the processes that one tracer thread watches.
class RecoveryFile {
  public:
    static constexpr std::size_t kMaxProcesses = 1024;
    /// A guardian's, of this file.
    static constexpr int kGuardiansDescriptor = 3;

    static Result<std::unique_ptr<RecoveryFile>> create();
    /// From the descriptor that another process got of us; takes it over.
    static Result<std::unique_ptr<RecoveryFile>> open(int fd);
    ~RecoveryFile();
    RecoveryFile(const RecoveryFile&) = delete;
    RecoveryFile& operator=(const RecoveryFile&) = delete;

    [[nodiscard]] int fd() const { return fd_; }
    /// The process that would put everything back; 0: none that is known.
    [[nodiscard]] pid_t guardian() const { return guardian_; }
    void set_guardian(pid_t pid) { guardian_ = pid; }

    /// The tracer thread holds the lock while it changes targets. It is a robust one
    /// (pthread_mutexattr_setrobust(3)): the kernel passes it on when that thread dies, before it
    /// lets go of the threads that this one traces.
    void hold();
    void release();
    /// Waits for the lock; true if its holder has died with it.
    [[nodiscard]] bool wait_for_holders_death();

    /// An unused entry, for as long as the caller has it, which is not longer than the file; an
    /// ordinary piece of memory, which nobody else sees, if there is none left. The user is told of
    /// the first such, as no guardian puts that process back. Throws std::bad_alloc.
    [[nodiscard]] std::shared_ptr<RecoveryRecord> claim();
    /// Those that tell of a process, with the breakpoints that they have now: none is to be added.
    /// What cannot be mapped is told, and left out.
    [[nodiscard]] std::vector<std::shared_ptr<RecoveryRecord>> in_use();
    /// Does somebody else's file tell of this process? The descriptor is the caller's, and what is
    /// behind it may be anything.
    [[nodiscard]] static bool tells_of(int fd, Tid pid, std::uint64_t start_time);

    /// For a Target without a guardian. Throws std::bad_alloc.
    static std::shared_ptr<RecoveryRecord>
    private_record(std::size_t most_breakpoints = RecoveryRecord::kMaxBreakpoints);

  private:
    struct Header {
        pthread_mutex_t lock;
        std::atomic<std::uint32_t> claimed; ///< entries that have ever been
        std::array<std::atomic<std::uint8_t>, kMaxProcesses> taken;
    };
    RecoveryFile(int fd, Header* header) : fd_(fd), header_(header) {}
    static std::size_t size();
    /// With room for so many breakpoints; null if there is no memory (errno).
    [[nodiscard]] std::shared_ptr<RecoveryRecord> try_map(std::size_t index,
                                                          std::size_t breakpoints);

    int fd_;
    pid_t guardian_ = 0;
    Header* header_;
    bool told_ = false; ///< that there is no entry left
};

} // namespace memleax
