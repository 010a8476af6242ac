// SPDX-License-Identifier: GPL-3.0-or-later
/// The agent in the target: maps its code and its memory there, and writes to it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agent/agent.hpp"
#include "agent_pages.hpp"
#include "agent_threads.hpp"
#include "call_tree.hpp"
#include "memleax/base/error.hpp"
#include "memleax/proc/memory_room.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

class AgentMemory final : public CallTreeWriter, public AgentThreadsMemory {
  public:
    /// It must outlive this.
    explicit AgentMemory(Target& target) : target_(target), pages_(target), room_(target.pid()) {}

    AgentPages& pages() { return pages_; }
    [[nodiscard]] bool mapped() const { return pages_.agent_data().has_value(); }
    /// Maps the data, by the stopped thread `worker`. The agent is not enabled. `checks`: it is to
    /// know what is live, see agent::LiveTable.
    Result<void> map(Tid worker, bool checks);
    Result<void> make_room_for(std::uint32_t index, Tid worker) override;
    [[nodiscard]] std::uint32_t ring_entries(std::uint32_t index) const override;
    /// Where all of that is.
    [[nodiscard]] std::vector<AddrRange> ranges() const { return pages_.data_ranges(); }

    struct Thunk {
        CodeAddr entry; ///< where the function's jump is to lead to
        CodeAddr trap;  ///< a no-op, for a breakpoint; see arch::thunk_code
    };
    /// The way into the agent for a function at `entry`, whose first instructions are at
    /// `original`; `function` says the rest (`called` 0: the original).
    Result<Thunk> add_function(CodeAddr entry, CodeAddr original, agent::Function function,
                               Tid worker);
    /// The way through arch::gate_code, likewise.
    Result<Thunk> add_gate(CodeAddr entry, CodeAddr original, Tid worker);
    /// See arch::gate_code. Only one that answers nothing gets another handler.
    void set_gate_handler(CodeAddr gate, std::uint64_t handler);
    void set_gate_answers(CodeAddr gate, bool answers);
    /// Where calls by the agent return to: one place for each piece of its code.
    [[nodiscard]] const std::vector<CodeAddr>& return_places() const { return return_places_; }

    void enable();
    void set_pointer_from(arch::ThreadPointerFrom from);
    /// As long as we live: no call passes that should trap.
    void forget_unattended();
    void set_tick(std::uint8_t tick) override;
    void write_thread(std::uint32_t index, const agent::Thread& thread,
                      const agent::Progress& progress) override;
    void set_ready(std::uint32_t index, bool ready) override;
    void set_trap(std::uint32_t index, bool trap) override;
    void set_interrupted(std::uint32_t index, bool interrupted) override;
    void forget_failure(std::uint32_t index);
    void set_claimed_parts(std::uint32_t index, std::uint8_t parts) override;
    void set_freed_parts(std::uint32_t index, std::uint8_t parts) override;
    void set_forced_stack(std::uint32_t index, std::uint32_t stack);
    void set_stack(std::uint32_t index, AddrRange stack) override;
    void set_inside(std::uint32_t index, std::uint64_t inside) override;
    void write_thread_slot(std::uint32_t slot, std::uint16_t value) override;
    /// Takes the block at this address out of the agent's table of live ones.
    void forget_live(RemoteAddr block);

    void write_node(std::uint32_t index, const agent::Node& node) override;
    void write_child(std::uint32_t slot, std::uint32_t node) override;
    void write_first_child(std::uint32_t parent, std::uint32_t node) override;
    void clear_children(std::uint32_t first_slot, std::uint32_t count) override;
    void clear_functions() override;

    [[nodiscard]] bool read_next_ticket(std::uint64_t* ticket) const override;
    [[nodiscard]] bool read_progress(std::uint32_t first,
                                     std::span<agent::Progress> progress) const override;
    [[nodiscard]] bool read_entries(std::uint32_t thread, std::uint64_t first,
                                    std::span<agent::Entry> entries) const override;
    /// The address space is gone.
    void forget();

  private:
    struct Piece {
        AddrRange range;
        std::uint64_t used = 0; ///< bytes
        [[nodiscard]] CodeAddr next() const { return CodeAddr(range.begin + used); }
    };
    void begin_epoch();
    /// Where the thread's ring and memos are.
    struct Place {
        RemoteAddr ring;
        RemoteAddr memos;
    };
    [[nodiscard]] Place place_of(std::uint32_t index) const;
    template <class Shares> static Place place_in(RemoteAddr shares, std::size_t number);
    /// Is there room for what the agent takes when it is used? Memory that a control group has not
    /// got would be the target's death.
    Result<void> find_room(bool checks);
    [[nodiscard]] bool is_wide(std::uint32_t index) const;
    Result<Piece*> piece_near(CodeAddr entry, Tid worker);
    Result<Thunk> write_thunk(Piece& piece, std::span<const std::uint8_t> bytes);
    [[nodiscard]] RemoteAddr at(std::size_t offset) const;
    [[nodiscard]] RemoteAddr thread_at(std::uint32_t index, std::size_t offset) const;
    [[nodiscard]] RemoteAddr progress_at(std::uint32_t index, std::size_t offset) const;
    void write(RemoteAddr at, std::span<const std::uint8_t> bytes);
    template <class T> void write_object(RemoteAddr where, const T& object) {
        write(where, {reinterpret_cast<const std::uint8_t*>(&object), sizeof object});
    }
    template <class T> [[nodiscard]] bool read(RemoteAddr from, std::span<T> into) const {
        return target_.memory().try_read_unmasked(from, std::as_writable_bytes(into)) ==
               into.size_bytes();
    }

    Target& target_;
    AgentPages pages_;
    MemoryRoom room_; ///< looked for before anybody stands still
    std::vector<Piece> pieces_;
    std::vector<CodeAddr> return_places_;
    std::uint32_t epoch_ = 0;
    bool is_narrow_ = false;         ///< also the first threads have little
    std::uint32_t writable_ = 0;     ///< pieces of Data::wide
    RemoteAddr live_table_;          ///< null: there is none
    std::vector<RemoteAddr> narrow_; ///< agent::NarrowThreads, those that are there
};

} // namespace memleax
