// SPDX-License-Identifier: GPL-3.0-or-later
/// The buffer that the kernel writes records into and we read them from (perf_event_open(2), "MMAP
/// layout").
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "memleax/base/error.hpp"

namespace memleax {

/// The records between two positions of a ring. Pure; trusts neither positions nor sizes.
class RingRecords {
  public:
    /// `data` is a power of two of bytes. Positions only grow; they are taken modulo that.
    RingRecords(std::span<const std::byte> data, std::uint64_t head, std::uint64_t tail);
    /// Appends the next record to `out`, and returns its size; 0: there is none, or what is there
    /// is no record. Then the rest is given up.
    std::size_t next(std::vector<std::byte>* out);
    /// Up to here all has been read, or given up.
    [[nodiscard]] std::uint64_t tail() const { return tail_; }

  private:
    void copy(std::uint64_t from, std::span<std::byte> out) const;

    std::span<const std::byte> data_;
    std::uint64_t head_;
    std::uint64_t tail_;
};

/// Mapped, of one event on one CPU, to which others on that CPU can be sent.
class PerfRing {
  public:
    /// `size` bytes, a power of two of pages. EPERM where we may not have so much: without
    /// CAP_IPC_LOCK and CAP_PERFMON that is perf_event_mlock_kb for each CPU, and RLIMIT_MEMLOCK.
    static Result<PerfRing> map(int fd, std::size_t size);
    PerfRing(PerfRing&& other) noexcept;
    PerfRing& operator=(PerfRing&&) = delete;
    ~PerfRing();

    [[nodiscard]] std::size_t size() const { return data_.size(); }
    /// How much there is to read.
    [[nodiscard]] std::size_t filled() const;
    /// Appends all records to `out`, calling `each(offset, size)` for every one of them.
    template <class Each> void drain(std::vector<std::byte>* out, Each each) {
        RingRecords records(data_, head(), tail_);
        for (;;) {
            const std::size_t at = out->size();
            const std::size_t size = records.next(out);
            if (size == 0) {
                break;
            }
            each(at, size);
        }
        set_tail(records.tail());
    }

  private:
    PerfRing(void* base, std::size_t size);
    [[nodiscard]] std::uint64_t head() const;
    void set_tail(std::uint64_t tail);

    void* base_;
    std::span<const std::byte> data_;
    std::uint64_t tail_ = 0;
};

} // namespace memleax
