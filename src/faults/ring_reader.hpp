// SPDX-License-Identifier: GPL-3.0-or-later
/// Empties the kernel's buffers in a thread of its own, before others of the machine if it may: the
/// tracer thread may be kept from that for as long as it takes to read a library's symbols.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <thread>
#include <vector>

#include "memleax/base/types.hpp"
#include "perf_ring.hpp"

namespace memleax {

/// Records, in the order in which they were read.
struct RecordBatch {
    struct Record {
        MonotonicNs time;
        std::size_t at; ///< in bytes
        std::size_t size;
    };
    std::vector<std::byte> bytes;
    std::vector<Record> records;
};

class RingReader {
  public:
    /// `rings` must outlive it, and are nobody else's.
    explicit RingReader(std::vector<PerfRing>& rings);
    ~RingReader();
    RingReader(const RingReader&) = delete;
    RingReader& operator=(const RingReader&) = delete;

    [[nodiscard]] bool any();
    /// Appends all that has been written until now.
    void take(RecordBatch* batch);

  private:
    void run();
    void read_rings();

    std::vector<PerfRing>& rings_;
    std::mutex mutex_; ///< guards the rings, and what follows
    std::condition_variable changed_;
    RecordBatch read_;
    bool stop_ = false;
    std::thread thread_; ///< the last member: it uses the others
};

} // namespace memleax
