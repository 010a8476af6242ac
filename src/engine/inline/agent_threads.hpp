// SPDX-License-Identifier: GPL-3.0-or-later
/// The target's threads as the agent knows them, and what they have recorded.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include <absl/container/flat_hash_map.h>

#include "agent/agent.hpp"
#include "delivered_tickets.hpp"
#include "memleax/base/error.hpp"
#include "memleax/calls/call.hpp"

namespace memleax {

/// Where the threads' blocks are, in the target. What is written under a running thread is one
/// byte.
class AgentThreadsMemory {
  public:
    virtual ~AgentThreadsMemory() = default;
    /// Maps what the thread with this index needs, if that is not there yet.
    virtual Result<void> make_room_for(std::uint32_t index, Tid worker) = 0;
    /// How many its ring has.
    [[nodiscard]] virtual std::uint32_t ring_entries(std::uint32_t index) const = 0;
    /// Sets where that is, too. The thread is not ready, or has not been.
    virtual void write_thread(std::uint32_t index, const agent::Thread& thread,
                              const agent::Progress& progress) = 0;
    virtual void write_thread_slot(std::uint32_t slot, std::uint16_t value) = 0;
    virtual void set_ready(std::uint32_t index, bool ready) = 0;
    virtual void set_trap(std::uint32_t index, bool trap) = 0;
    virtual void set_stack(std::uint32_t index, AddrRange stack) = 0;
    virtual void set_inside(std::uint32_t index, std::uint64_t inside) = 0;
    virtual void set_interrupted(std::uint32_t index, bool interrupted) = 0;
    virtual void set_claimed_parts(std::uint32_t index, std::uint8_t parts) = 0;
    virtual void set_freed_parts(std::uint32_t index, std::uint8_t parts) = 0;
    virtual void set_tick(std::uint8_t tick) = 0;
    /// False: it is gone, or is not there yet.
    [[nodiscard]] virtual bool read_next_ticket(std::uint64_t* ticket) const = 0;
    /// Of the threads from this index on.
    [[nodiscard]] virtual bool read_progress(std::uint32_t first,
                                             std::span<agent::Progress> progress) const = 0;
    /// No more than its ring has.
    [[nodiscard]] virtual bool read_entries(std::uint32_t thread, std::uint64_t first,
                                            std::span<agent::Entry> entries) const = 0;
};

/// Its threads' memory is the target's: nothing that is read there is believed further than it can
/// do no harm to us.
class AgentThreads {
  public:
    /// It must outlive this. Thread-pointers are those of stopped threads (arch::thread_pointer).
    explicit AgentThreads(AgentThreadsMemory& memory) : memory_(memory) {}

    /// The index of a stopped thread, which is made known to the agent if it is not; nothing if it
    /// cannot be.
    std::optional<std::uint32_t> get(Tid tid, std::uint64_t pointer, AddrRange stack);
    [[nodiscard]] std::optional<std::uint32_t> find(Tid tid) const;
    /// Before its first call, of which nobody knows whether it comes: as get(), if there is much
    /// room.
    void get_early(Tid tid, std::uint64_t pointer, AddrRange stack);
    /// A newborn may have the pointer of a thread that has ended, of which we have not heard yet
    /// (find_by_pointer() tells it: then on_thread_gone() comes first), or of one that lives: then
    /// neither is the agent's. It has not executed anything yet.
    void on_birth(Tid tid, std::uint64_t pointer);
    /// Whose this pointer is, and nobody else's.
    [[nodiscard]] std::optional<Tid> find_by_pointer(std::uint64_t pointer) const;
    /// It executes nothing any more, and what it has recorded has been taken.
    void on_thread_gone(Tid tid);

    /// As it was when fetch() was called last.
    [[nodiscard]] const agent::Progress& seen(std::uint32_t index) const { return seen_[index]; }
    /// As it is now; all is 0 if that cannot be read. Nothing that threads have recorded is read
    /// for that: where signals come fast, they would have to wait for it.
    [[nodiscard]] agent::Progress now(std::uint32_t index) const;
    /// The memory that its stack lies in, as far as the agent knows. A coroutine has another one.
    [[nodiscard]] AddrRange stack(std::uint32_t index) const { return known_[index].stack; }
    void set_stack(std::uint32_t index, AddrRange stack);
    /// Reads what has been recorded by now.
    void fetch();
    /// What has been fetched, and can be told. Whatever happened to a block before something that
    /// is returned, has been returned, too; so has all that a thread did that was stopped then.
    /// What was recorded while fetch() looked may be left for the next time. In an order for the
    /// account; the result is good until the next call.
    const std::vector<RecordedCall>& take();
    /// After how many ns a ring will be full, and its thread stop, if calls go on as since this was
    /// asked last, and fetch() does not look before; Watch::kAnyTime: there were none.
    [[nodiscard]] std::int64_t time_to_fill();
    /// All that was recorded up to then has been taken.
    [[nodiscard]] MonotonicNs delivered_until() const { return delivered_tickets_.until(); }
    /// What calls record from now on happens at this time, for take(). Times that are too close
    /// count as one: an entry has one byte for it.
    void tick(MonotonicNs now);
    /// Something else has been told, of this time: what is read from now on came later.
    void was_delivered(MonotonicNs time) { last_time_ = std::max(last_time_, time); }
    /// A realloc that this thread is inside of will not return: what it is told as.
    std::optional<RecordedCall> leave_call(std::uint32_t index, MonotonicNs now);

    /// The agent has been told of this stack.
    void add_stack(StackId stack) { last_stack_ = std::max(last_stack_, stack); }
    /// Functions below this are known.
    void set_functions(int count) { functions_ = count; }
    /// Calls that needed no trap, by all threads that are there.
    [[nodiscard]] std::uint64_t calls() const;
    /// The address space is gone.
    void forget();

  private:
    struct Known {
        Tid tid; ///< 0: free
        std::uint64_t pointer = 0;
        AddrRange stack;
        std::uint64_t read = 0;        ///< entries of its ring
        std::uint64_t read_before = 0; ///< when time_to_fill() was asked last
        std::uint8_t freed_parts = 0;
        std::uint8_t claimed_parts = 0;
        bool is_shared = false;            ///< its pointer is another's, too
        std::optional<RemoteAddr> realloc; ///< the old block of the one that it is in
        int realloc_function = -1;
        bool is_broken = false; ///< it has written where only the agent does
    };
    struct Recorded {
        std::uint32_t thread;
        agent::Entry entry;
    };
    static bool comes_before(const Recorded& a, const Recorded& b) {
        return a.entry.ticket < b.entry.ticket;
    }
    /// Sorts what is waiting, of which each of these parts is sorted: they end there.
    void merge(std::vector<std::size_t> ends);
    void release(std::uint32_t index);
    [[nodiscard]] bool put_in_table(std::uint32_t index, std::uint64_t pointer);
    /// It has written where only the agent does.
    void give_up(std::uint32_t index);
    /// From now on its thread leaves the entries before `head` as they are.
    void claim(std::uint32_t index, std::uint64_t head);
    void read_ring(std::uint32_t index, std::uint64_t head);
    void deliver(const Recorded& recorded);
    [[nodiscard]] MonotonicNs time_of(std::uint8_t tick) const;

    /// Beyond so many entries that wait for others, they are told as they are.
    static constexpr std::size_t kMostWaiting = 1U << 20;
    static constexpr std::int64_t kShortestTickNs = 2'000'000;

    AgentThreadsMemory& memory_;
    std::vector<Known> known_; ///< by index
    absl::flat_hash_map<Tid, std::uint32_t> by_tid_;
    absl::flat_hash_map<std::uint64_t, std::uint32_t> by_pointer_;
    std::vector<std::uint32_t> free_; ///< indices of threads that have ended
    bool is_full_ = false;            ///< nothing more can be mapped
    std::array<std::uint16_t, agent::kThreadSlots> table_{};
    std::vector<agent::Progress> seen_;
    std::uint64_t calls_of_gone_ = 0; ///< of the threads that have ended
    std::vector<Recorded> waiting_;   ///< have been fetched, and are to be told; by tickets
    std::uint64_t tickets_ = 0;       ///< lower ones have all been fetched
    MonotonicNs fetched_at_{};
    struct {
        std::uint64_t tickets = 0;
        MonotonicNs fetched_at{};
    } before_;               ///< the same of the last fetch() but one
    MonotonicNs paced_at_{}; ///< time_to_fill() was asked, and this was fetched_at_
    std::vector<agent::Entry> buffer_;
    std::vector<RecordedCall> delivered_;
    StackId last_stack_{0};
    int functions_ = 0;
    std::array<MonotonicNs, 256> ticks_{}; ///< when each began
    std::uint8_t tick_ = 0;
    MonotonicNs last_time_{};
    DeliveredTickets delivered_tickets_;
};

} // namespace memleax
