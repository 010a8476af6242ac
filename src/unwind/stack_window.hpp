// SPDX-License-Identifier: GPL-3.0-or-later
/// A copy of the part of a thread's stack that a walk needs, got with one read where possible.
///
///     sp                 begin_ + size_        growth, when a walk goes deeper
///     |<---- one try_read ---->|<- - - - - - - - - ->|          addresses ascend: towards callers
///
/// How much to read at first is what recent walks needed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <vector>

#include "expression.hpp"
#include "memleax/proc/memory.hpp"

namespace memleax {

class StackWindow final : public WordReader {
  public:
    explicit StackWindow(MemoryReader& memory) : memory_(memory) {}

    /// A walk begins here: reads the stack from sp on. What was read before is forgotten.
    void start(RemoteAddr sp);
    /// The walk is over: learns from how far it went.
    void finish();

    /// A word of the stack that is being walked: grows, or moves, the window.
    [[nodiscard]] std::optional<std::uint64_t> stack_word(RemoteAddr at) {
        const std::uint64_t offset = at.value() - begin_;
        if (offset < words_end_) {
            deepest_ = offset > deepest_ ? offset : deepest_;
            return load(offset);
        }
        return stack_word_outside(at);
    }
    /// Bytes of the stack, for a signal frame; false if they could not be read whole.
    [[nodiscard]] bool stack_bytes(RemoteAddr from, std::span<std::byte> out);
    /// Is `low` on another stack than `high`? So it is if they are far apart, or if not all between
    /// them can be read, as below each stack lies a guard page. Leaves the window as it is.
    [[nodiscard]] bool is_other_stack(RemoteAddr low, RemoteAddr high);
    /// A word of any memory: leaves the window as it is.
    [[nodiscard]] std::optional<std::uint64_t> word(RemoteAddr at) override;

    /// Reads of the target's memory, ever.
    [[nodiscard]] std::uint64_t reads() const { return reads_; }
    /// What the next walk will read at first.
    [[nodiscard]] std::size_t usual_size() const { return usual_; }

    static constexpr std::size_t kMinSize = 512;
    static constexpr std::size_t kMaxFirstSize = std::size_t{16} * 1024;
    /// A frame that is further away than this, or behind a gap, moves the window to it.
    static constexpr std::size_t kMaxSize = std::size_t{256} * 1024;

  private:
    /// In bytes. Addresses that are further apart are taken for being on two stacks without a look
    /// for a guard page between them, as each such walk would have to read all that is between. A
    /// corrupt frame pointer may lead as far down one stack: the walk then ends where it finds no
    /// return address, or at its limit.
    static constexpr std::size_t kFarApart = std::size_t{64} * 1024;

    [[nodiscard]] std::uint64_t load(std::uint64_t offset) const {
        std::uint64_t value = 0;
        std::memcpy(&value, buffer_.data() + offset, sizeof(value));
        return value;
    }
    std::optional<std::uint64_t> stack_word_outside(RemoteAddr at);
    /// Makes [at, at + size) part of the window, if that memory can be read.
    bool cover(RemoteAddr at, std::size_t size);
    /// Forgets the window, and reads another one with one read.
    void begin_at(RemoteAddr at, std::size_t size);
    void fill(std::size_t size);

    MemoryReader& memory_;
    std::vector<std::byte> buffer_; ///< only ever grows
    std::uint64_t begin_ = 0;       ///< address of buffer_[0]
    std::size_t size_ = 0;          ///< how much of buffer_ is valid
    std::size_t words_end_ = 0;     ///< offsets below this have a whole word in the window
    std::uint64_t deepest_ = 0;     ///< greatest offset that this walk asked for
    bool at_end_ = false;           ///< the memory behind the window is unreadable
    bool moved_ = false;            ///< deepest_ says nothing about this walk's need
    std::size_t usual_ = 2 * kMinSize;
    std::uint64_t reads_ = 0;
};

} // namespace memleax
