// SPDX-License-Identifier: GPL-3.0-or-later
/// Pointers to blocks from everywhere but blocks.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "block_index.hpp"
#include "block_words.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/present_pages.hpp"
#include "thread_block.hpp"
#include "thread_view.hpp"

namespace memleax {

class RootSearch {
  public:
    /// The places of the roots, and their offsets, are noted in `details`; null: they are not.
    RootSearch(MemoryReader& memory, const BlockIndex& index, const PresentPages& pages,
               const ThreadBlock& block, HeapDetails* details)
        : memory_(memory), index_(index), pages_(pages), block_(block), details_(details),
          buffer_(kPiece) {}

    /// Blocks lie anywhere, and what is theirs of the words that are read goes there.
    void set_block_words(BlockWords* words) { block_words_ = words; }

    void add_kernel_pointers(std::span<const std::uint64_t> words);
    void add_threads(std::span<const ThreadView> threads);
    /// All that may be read, but for `heap`, which ascends, the parts of stacks that are not in
    /// use, and the stacks of threads that have ended.
    void add_memory(std::span<const Mapping> mappings, std::span<const AddrRange> heap,
                    std::span<const ThreadView> threads);
    [[nodiscard]] std::vector<BlockLink> take() { return std::move(roots_); }

  private:
    static constexpr std::size_t kPiece = 1U << 20;

    void add_root(BlockLink link, const RootPlace& place) {
        roots_.push_back(link);
        if (details_ != nullptr) {
            details_->root_places.push_back(place);
        }
    }
    void add_word(std::uint64_t word, const RootPlace& place,
                  BlockIndex::LastWord last = BlockIndex::LastWord::is_header);
    void add_range(AddrRange range, BlockIndex::LastWord last);
    void add_chunk_pointers(AddrRange range);
    /// A pointer into a block, in a static variable. That of _dl_find_object is one to the block,
    /// and so are those that it leads to. False: it is another's.
    bool add_object_segments(std::uint64_t word, BlockLink link, const RootPlace& place);
    /// The pointer to its thread's dynamic TLS, which is to the second element of that block.
    void add_dtv(std::uint64_t thread_pointer, Tid tid);
    [[nodiscard]] AddrRange in_use(const Mapping& mapping, bool has_guard,
                                   std::span<const ThreadView> threads);
    [[nodiscard]] AddrRange dead_thread_in(AddrRange stack);
    /// A stack that this memory, which has a control block, gives as the thread's, whose guard ends
    /// where the mapping begins: where it ends, if that is in `ends`.
    [[nodiscard]] bool has_stack(AddrRange control_block, const AddrRange& mapping, AddrRange ends);
    /// Does the stack of this thread begin with the mapping?
    [[nodiscard]] bool is_stack_of(const ThreadView& thread, const AddrRange& mapping);
    [[nodiscard]] bool has_dtv(std::uint64_t thread_pointer);
    [[nodiscard]] std::optional<std::uint64_t> find_control_block(AddrRange range,
                                                                  std::optional<Tid> living);
    [[nodiscard]] std::uint64_t offset_of_pointer(const ThreadView& thread);

    MemoryReader& memory_;
    const BlockIndex& index_;
    const PresentPages& pages_;
    const ThreadBlock& block_;
    HeapDetails* details_;
    std::vector<std::byte> buffer_;
    std::vector<BlockLink> roots_;
    std::uint64_t pointer_offset_ = 0; ///< of the thread pointer in the control block
    BlockWords* block_words_ = nullptr;
};

} // namespace memleax
