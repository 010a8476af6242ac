// SPDX-License-Identifier: GPL-3.0-or-later
/// What there is of a process's shared memory that it has not touched by these mappings: where it
/// has mapped it anew, got it by fork(2), or the kernel has taken it out of the page table, to swap
/// it out. It is read by its file, so that the process's page table stays as it is.
///
/// Only memory that has no file on a disk: memfd_create(2), shm_open(3), MAP_SHARED with
/// MAP_ANONYMOUS, all of which are files of tmpfs. Of a file on a disk what has not been touched is
/// not looked at: it may be a database of any size, and an address of a process is nothing to keep
/// there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/proc/maps.hpp"
#include "memleax/proc/memory.hpp"
#include "memleax/proc/present_pages.hpp"

namespace memleax {

class SharedParts {
  public:
    /// More is not read, as the process stands still meanwhile.
    static constexpr std::uint64_t kMostBytes = 256U << 20;

    /// As it is now: of a process that stands still it remains so.
    SharedParts(Tid pid, std::span<const Mapping> mappings, const PresentPages& pages);
    SharedParts(const SharedParts&) = delete;
    SharedParts& operator=(const SharedParts&) = delete;
    ~SharedParts();

    [[nodiscard]] std::uint64_t bytes() const { return bytes_; }
    /// Ascending, in whole pages.
    [[nodiscard]] std::vector<AddrRange> ranges() const;
    /// Is there memory of this kind that may have more: too much, or in a file that we may not
    /// open?
    [[nodiscard]] bool is_incomplete() const { return is_incomplete_; }
    [[nodiscard]] bool has(RemoteAddr at) const { return find(at.value()) != nullptr; }
    /// As MemoryReader does it, up to the end of one part. By any thread.
    [[nodiscard]] std::size_t try_read(RemoteAddr from, std::span<std::byte> out) const;

  private:
    struct Part {
        AddrRange range;
        int file;
        std::uint64_t offset;
    };
    void add(const Mapping& mapping, AddrRange absent, int file);
    [[nodiscard]] const Part* find(std::uint64_t at) const;

    std::vector<Part> parts_; ///< ascending
    std::vector<int> files_;
    std::uint64_t bytes_ = 0; ///< of all parts
    bool is_incomplete_ = false;
};

/// The memory of a process, with those parts.
class MemoryWithSharedParts final : public MemoryReader {
  public:
    /// Null: there are none.
    MemoryWithSharedParts(MemoryReader& memory, const SharedParts* parts)
        : memory_(memory), parts_(parts) {}

    std::size_t try_read(RemoteAddr from, std::span<std::byte> out) override {
        return parts_ != nullptr && parts_->has(from) ? parts_->try_read(from, out)
                                                      : memory_.try_read(from, out);
    }

  private:
    MemoryReader& memory_;
    const SharedParts* parts_;
};

} // namespace memleax
