// SPDX-License-Identifier: GPL-3.0-or-later
/// The agent in the target: maps its code and its memory there, and writes to it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "agent/agent.hpp"
#include "agent_pages.hpp"
#include "call_tree.hpp"
#include "memleax/base/error.hpp"
#include "memleax/target/target.hpp"

namespace memleax {

class AgentMemory final : public CallTreeWriter {
  public:
    /// It must outlive this.
    explicit AgentMemory(Target& target) : target_(target), pages_(target) {}

    /// Null, or why there can be none on this machine.
    static const char* reason_against();

    AgentPages& pages() { return pages_; }
    [[nodiscard]] bool mapped() const { return pages_.agent_data().has_value(); }
    /// Maps the data, by the stopped thread `worker`. The agent is not enabled.
    Result<void> map(Tid worker);

    struct Thunk {
        CodeAddr entry; ///< where the function's jump is to lead to
        CodeAddr trap;  ///< a no-op, for a breakpoint; see arch::thunk_code
    };
    /// The way into the agent for a function at `entry`, whose first instructions are at
    /// `original`; `function` says the rest (`called` 0: the original).
    Result<Thunk> add_function(CodeAddr entry, CodeAddr original, agent::Function function,
                               Tid worker);
    /// Where calls by the agent return to: one place for each piece of its code.
    [[nodiscard]] const std::vector<CodeAddr>& return_places() const { return return_places_; }

    void enable();
    void set_tick(std::uint8_t tick);
    /// Gives out no thread twice that runs, nor writes to what one may read but in single bytes.
    void write_thread(std::uint32_t index, const agent::Thread& thread,
                      const agent::Progress& progress);
    void set_ready(std::uint32_t index, bool ready);
    void set_trap(std::uint32_t index, bool trap);
    void set_interrupted(std::uint32_t index, bool interrupted);
    void forget_failure(std::uint32_t index);
    void set_claimed_parts(std::uint32_t index, std::uint8_t parts);
    void set_freed_parts(std::uint32_t index, std::uint8_t parts);
    void set_forced_stack(std::uint32_t index, std::uint32_t stack);
    void set_stack(std::uint32_t index, AddrRange stack);
    void set_inside(std::uint32_t index, std::uint64_t inside);
    void write_thread_slot(std::uint32_t slot, std::uint16_t value);

    void write_node(std::uint32_t index, const agent::Node& node) override;
    void write_child(std::uint32_t slot, std::uint32_t node) override;
    void write_first_child(std::uint32_t parent, std::uint32_t node) override;
    void clear_children() override;

    /// False: it is gone, or is not there yet.
    [[nodiscard]] bool read_next_ticket(std::uint64_t* ticket) const;
    [[nodiscard]] bool read_progress(std::span<agent::Progress> progress) const;
    [[nodiscard]] bool read_entries(std::uint32_t thread, std::uint64_t first,
                                    std::span<agent::Entry> entries) const;
    /// The address space is gone.
    void forget();

  private:
    struct Piece {
        AddrRange range;
        std::uint64_t used = 0; ///< bytes
    };
    void begin_epoch();
    Result<Piece*> piece_near(CodeAddr entry, Tid worker);
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
    std::vector<Piece> pieces_;
    std::vector<CodeAddr> return_places_;
    std::uint32_t epoch_ = 0;
};

} // namespace memleax
