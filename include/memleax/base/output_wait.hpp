// SPDX-License-Identifier: GPL-3.0-or-later
/// Who writes, or opens a FIFO, may wait for a reader for ever. So that signals and the end of the
/// time are heard all the same, SignalReader has to know when the main thread does that.
#pragma once

#include <atomic>
#include <cstdint>

namespace memleax {

/// While one lives, the main thread, whose it is, may be waiting so. There may be one within
/// another.
class OutputWait {
  public:
    OutputWait() { count_.fetch_add(depth_++ == 0 ? 1 : 0); }
    ~OutputWait() { count_.fetch_add(--depth_ == 0 ? 1 : 0); }
    OutputWait(const OutputWait&) = delete;
    OutputWait& operator=(const OutputWait&) = delete;

    /// The reader has taken something.
    static void note_progress() { count_.fetch_add(2); }
    /// Odd while there is one. If it is the same later on, that is the same one, and nothing has
    /// been taken meanwhile.
    [[nodiscard]] static std::uint64_t count() { return count_.load(); }

  private:
    inline static std::atomic<std::uint64_t> count_{0};
    inline static int depth_ = 0;
};

/// Writes all of it, in pieces, and waits as long as it takes; also where somebody else has made
/// the file non-blocking. 0, or errno. In the main thread, in an OutputWait.
int write_and_wait(int fd, const char* bytes, std::uint64_t size);

} // namespace memleax
