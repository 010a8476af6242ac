// SPDX-License-Identifier: GPL-3.0-or-later
/// Who writes, or opens a FIFO, may wait for a reader for ever. So that signals and the end of the
/// time are heard all the same, SignalReader has to know when the main thread does that.
#pragma once

#include <atomic>
#include <cstdint>

namespace memleax {

/// While one lives, the main thread may be waiting so. One at a time.
class OutputWait {
  public:
    OutputWait() { count_.fetch_add(1); }
    ~OutputWait() { count_.fetch_add(1); }
    OutputWait(const OutputWait&) = delete;
    OutputWait& operator=(const OutputWait&) = delete;

    /// Odd while there is one. If it is the same later on, that is the same one.
    [[nodiscard]] static std::uint64_t count() { return count_.load(); }

  private:
    inline static std::atomic<std::uint64_t> count_{0};
};

} // namespace memleax
