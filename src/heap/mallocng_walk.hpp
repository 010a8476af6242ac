// SPDX-License-Identifier: GPL-3.0-or-later
/// All live blocks of a process that uses musl's malloc, by what malloc has written down.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heap_books.hpp"
#include "mallocng_layout.hpp"
#include "mallocng_places.hpp"
#include "memleax/proc/memory.hpp"

namespace memleax {

/// One walk, of a process that stands still, and of which no thread is at work in malloc.
/// Everything that the books say twice is compared.
class MallocngWalk {
  public:
    MallocngWalk(MemoryReader& memory, const MallocngPlaces& places)
        : memory_(memory), context_(places.context) {}

    [[nodiscard]] WalkedHeap run();

  private:
    struct Group {
        std::uint64_t at = 0;   ///< the group
        std::uint64_t meta = 0; ///< its meta
        mallocng::Meta is{};

        [[nodiscard]] bool is_nested() const { return is.mapped_bytes() == 0 && is.is_freeable(); }
        [[nodiscard]] std::uint64_t slot(unsigned number) const {
            return at + mallocng::kUnit + number * is.stride();
        }
        /// With the header.
        [[nodiscard]] std::uint64_t bytes() const {
            return is.mapped_bytes() != 0 ? is.mapped_bytes() : slot(is.last_slot() + 1) - at;
        }
    };
    /// A slot in which a group lies.
    struct Nest {
        std::uint64_t at = 0;
        std::uint64_t bytes = 0;
    };

    bool fail(std::string why);
    bool read_areas();
    bool read_area(std::uint64_t at, std::uint64_t metas);
    bool check_group(const Group& group);
    bool check_free_metas();
    bool check_rings();
    bool check_usage();
    bool check_places();
    bool read_slots(const Group& group);
    bool read_slot(const Group& group, unsigned number);
    /// Where the slot's block begins; nothing if the slot does not say so.
    [[nodiscard]] std::optional<std::uint64_t> begin_of_block(const Group& group, unsigned number);
    [[nodiscard]] bool is_begin(const Group& group, unsigned number, std::uint64_t at);
    bool check_nests();
    [[nodiscard]] const Group* find_group(std::uint64_t meta) const;

    [[nodiscard]] std::optional<std::uint64_t> word(std::uint64_t at) {
        return memory_.try_read_object<std::uint64_t>(RemoteAddr(at));
    }
    /// Of four bytes. Small groups are read at once.
    [[nodiscard]] std::optional<std::uint32_t> half(std::uint64_t at);
    [[nodiscard]] mallocng::InBand in_band(std::uint64_t at) {
        constexpr std::uint32_t kNone = 0xffff'ffff; // is none
        return {half(at - mallocng::kInBand).value_or(kNone)};
    }

    MemoryReader& memory_;
    std::uint64_t context_;
    std::uint64_t secret_ = 0;
    std::string why_;
    std::vector<std::uint64_t> areas_;
    std::vector<std::uint64_t> unused_metas_; ///< ascending, as all that follow by the end
    std::vector<Group> groups_;               ///< by their metas; by their addresses at the end
    std::vector<Nest> nests_;
    HeapBlocks blocks_;
    std::vector<std::byte> image_; ///< of a small group
    std::uint64_t image_at_ = 0;
};

} // namespace memleax
