// SPDX-License-Identifier: GPL-3.0-or-later
/// The blocks that the program has allocated and not freed: found by address, and in order of age.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include <absl/container/flat_hash_set.h>

#include "memleax/base/types.hpp"
#include "memleax/track/address_hash.hpp"

namespace memleax {

/// What is known about one block.
struct Block {
    RemoteAddr address;
    std::uint64_t size = 0; ///< bytes that the program asked for
    MonotonicNs time;       ///< when it began
    StackId stack;          ///< where it was allocated
    Tid tid;                ///< by whom
    bool expired = false;
};

/// A record is 40 bytes, in chunks that never move; an index by address of 5 bytes a slot (absl's
/// control byte and a record number) is 44 to 88 per cent full: 46 to 52 bytes for a block in all.
/// Every operation costs the same however many blocks there are. Not thread-safe.
///
/// A block is *young* until mark_expired(). It is *in the table* from insert() on; take() takes it
/// out, and it is then ended by release() or comes back by put_back() as it was. Between the two it
/// counts in size() and bytes(), but find() does not see it and it does not expire.
class LiveBlocks {
  public:
    LiveBlocks();
    LiveBlocks(const LiveBlocks&) = delete;
    LiveBlocks& operator=(const LiveBlocks&) = delete;

    /// A young block begins. False, and the id of the one that is there, if the address is in the
    /// table already. Times may come out of order; a step back costs a walk over those it passes.
    std::pair<BlockId, bool> insert(const Block& block) {
        bool inserted = false;
        const BlockId id = insert(block, &inserted);
        return {id, inserted};
    }

    [[nodiscard]] std::optional<BlockId> find(RemoteAddr address) const {
        return if_any(number_of(address));
    }
    /// This address will be asked for soon.
    void prefetch(RemoteAddr address) const {
        shards_[hash_address(address) >> shard_shift_].prefetch(address);
    }
    /// The block at this address leaves the table.
    std::optional<BlockId> take(RemoteAddr address) { return if_any(take_number(address)); }
    /// Ends a block that was taken; its id may be given anew.
    void release(BlockId id);
    /// A block that was taken is as it was before, at its old age. False if its address is in the
    /// table already; it stays taken then.
    bool put_back(BlockId id);

    [[nodiscard]] Block operator[](BlockId id) const;

    /// The oldest young block if it began at `latest` or before. Blocks that are taken are passed
    /// over; they are found here again after put_back().
    std::optional<BlockId> next_to_expire(MonotonicNs latest);
    /// When the oldest young block began (it may be one that is taken).
    [[nodiscard]] std::optional<MonotonicNs> oldest_young() const;
    /// The block is young no longer.
    void mark_expired(BlockId id);

    /// Calls `each(const Block&)` for every block, also those that are taken, in no order.
    template <class Each> void for_each(Each each) const { for_each(0, used_, each); }
    /// Likewise, for those with record numbers from `begin` to `end` - 1: to read the table piece
    /// by piece, up to used(). A block keeps its number; one that begins meanwhile gets any.
    template <class Each> void for_each(std::uint32_t begin, std::uint32_t end, Each each) const {
        for (std::uint32_t index = begin; index < end && index < used_; ++index) {
            if (record(index).is(alive)) {
                each((*this)[BlockId(index)]);
            }
        }
    }
    /// How many record numbers there are; does not shrink but by clear() and compact().
    [[nodiscard]] std::uint32_t used() const { return used_; }
    /// Takes no more memory than its blocks need, as there will be hardly any new ones. They get
    /// new numbers; so nothing is done while one is taken, nor with more than can be moved within
    /// some milliseconds.
    void compact();
    /// All blocks are gone, those that are taken too.
    void clear();

    [[nodiscard]] std::size_t size() const { return size_; }
    /// How many of them are not young any more.
    [[nodiscard]] std::size_t expired() const { return expired_; }
    /// Sum of the blocks' sizes.
    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }

  private:
    static constexpr std::uint32_t kNone = 0xffffffff;
    static constexpr unsigned kChunkBits = 13; ///< 320 KiB, more than malloc keeps in its heap
    /// The index is split by the hash's top bits, so that growing it, which reads every record
    /// through the cache, stops the event that it happens in for a 256th of the whole time.
    static constexpr unsigned kShardBits = 8;

    /// The widest address space has 57 bits.
    static constexpr std::uint64_t kMostBytes = (std::uint64_t{1} << 60U) - 1;
    enum Flag : std::uint64_t {
        alive = std::uint64_t{1} << 60U,
        is_expired = std::uint64_t{1} << 61U,
        taken = std::uint64_t{1} << 62U,
        queued = std::uint64_t{1} << 63U ///< is in the list of young blocks
    };
    /// Plain, without initializers: a fresh chunk must not be touched before it is used.
    struct Record {
        std::uint64_t address;
        std::uint64_t size_and_flags; ///< no bit fields: a word of which one byte was just written
                                      ///< is slow to read
        std::int64_t time;
        std::uint32_t stack;
        std::int32_t tid;
        std::uint32_t prev; ///< in the list of young blocks, oldest first
        std::uint32_t next; ///< likewise, or in the list of free records

        [[nodiscard]] std::uint64_t size() const { return size_and_flags & kMostBytes; }
        [[nodiscard]] bool is(Flag flag) const { return (size_and_flags & flag) != 0; }
        void set(Flag flag) { size_and_flags |= flag; }
        void clear(Flag flag) { size_and_flags &= ~std::uint64_t{flag}; }
    };
    static_assert(sizeof(Record) == 40);

    struct Hash {
        using is_transparent = void;
        const LiveBlocks* blocks;
        std::size_t operator()(RemoteAddr address) const { return hash_address(address); }
        std::size_t operator()(std::uint32_t index) const {
            return hash_address(RemoteAddr(blocks->record(index).address));
        }
    };
    struct Equal {
        using is_transparent = void;
        const LiveBlocks* blocks;
        bool operator()(std::uint32_t a, std::uint32_t b) const { return a == b; }
        bool operator()(std::uint32_t index, RemoteAddr address) const {
            return blocks->record(index).address == address.value();
        }
        bool operator()(RemoteAddr address, std::uint32_t index) const {
            return (*this)(index, address);
        }
    };
    using Index = absl::flat_hash_set<std::uint32_t, Hash, Equal>;

    [[nodiscard]] Record& record(std::uint32_t index) const {
        return chunks_[index >> kChunkBits][index & ((1U << kChunkBits) - 1)];
    }
    [[nodiscard]] Index& shard(RemoteAddr address) {
        return shards_[hash_address(address) >> shard_shift_];
    }
    void make_shards(unsigned bits);
    void grow();
    BlockId insert(const Block& block, bool* inserted);
    /// Made where it is asked for, as is insert()'s pair: returned from elsewhere, it is read as
    /// one word that was written as two, which costs more than the look into the table.
    static std::optional<BlockId> if_any(std::uint32_t index) {
        return index != kNone ? std::optional(BlockId(index)) : std::nullopt;
    }
    [[nodiscard]] std::uint32_t number_of(RemoteAddr address) const;
    std::uint32_t take_number(RemoteAddr address);
    [[nodiscard]] Record& checked(BlockId id) const;
    std::uint32_t new_record();
    void enqueue_from_youngest(std::uint32_t index);
    void enqueue_from_oldest(std::uint32_t index);
    void link_before(std::uint32_t index, std::uint32_t next);
    void unlink(std::uint32_t index);

    std::vector<std::unique_ptr<Record[]>> chunks_;
    std::vector<Index> shards_;
    unsigned shard_shift_ = 0;          ///< 64 less the bits that choose a shard
    std::uint32_t used_ = 0;            ///< records that were ever in use
    std::uint32_t room_ = 0;            ///< records that the chunks have room for
    std::uint32_t free_record_ = kNone; ///< head of the list of those that are free again
    std::uint32_t oldest_ = kNone;
    std::uint32_t youngest_ = kNone;
    std::size_t size_ = 0;
    std::size_t expired_ = 0;
    std::uint64_t bytes_ = 0;
};

} // namespace memleax
