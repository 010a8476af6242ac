// SPDX-License-Identifier: GPL-3.0-or-later
/// Pointers to blocks from everywhere but blocks.
#pragma once

#include <span>
#include <vector>

#include "block_index.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/present_pages.hpp"
#include "thread_block.hpp"
#include "thread_view.hpp"

namespace memleax {

class RootSearch {
  public:
    /// The `places` of the roots are noted there; null: they are not.
    RootSearch(MemoryReader& memory, const BlockIndex& index, const PresentPages& pages,
               const ThreadBlock& block, std::vector<RootPlace>* places)
        : memory_(memory), index_(index), pages_(pages), block_(block), places_(places),
          buffer_(kPiece) {}

    void add_kernel_pointers(std::span<const std::uint64_t> words);
    void add_threads(std::span<const ThreadView> threads);
    /// All that may be read, but for `heap`, which ascends, the parts of stacks that are not in
    /// use, and the stacks of threads that have ended.
    void add_memory(std::span<const Mapping> mappings, std::span<const AddrRange> heap,
                    std::span<const ThreadView> threads);
    [[nodiscard]] std::vector<BlockLink> take() { return std::move(roots_); }

  private:
    static constexpr std::size_t kPiece = 1U << 20;

    void add_word(std::uint64_t word, const RootPlace& place,
                  BlockIndex::LastWord last = BlockIndex::LastWord::is_header);
    void add_range(AddrRange range, BlockIndex::LastWord last);
    void add_chunk_pointers(AddrRange range);
    /// The pointer to its thread's dynamic TLS, which is to the second element of that block.
    void add_dtv(std::uint64_t thread_pointer, Tid tid);
    [[nodiscard]] std::uint64_t begin_of_use(const Mapping& mapping, bool has_guard,
                                             std::span<const ThreadView> threads);
    [[nodiscard]] std::uint64_t dead_thread_in(AddrRange stack);

    MemoryReader& memory_;
    const BlockIndex& index_;
    const PresentPages& pages_;
    const ThreadBlock& block_;
    std::vector<RootPlace>* places_;
    std::vector<std::byte> buffer_;
    std::vector<BlockLink> roots_;
};

} // namespace memleax
