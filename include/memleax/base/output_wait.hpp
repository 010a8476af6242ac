// SPDX-License-Identifier: GPL-3.0-or-later
/// Who writes, or opens a FIFO, may wait for a reader for ever. So that signals and the end of the
/// time are heard all the same, SignalReader has to know when the main thread does that.
#pragma once

#include <atomic>
#include <cstdint>

#include <unistd.h>

namespace memleax {

/// While one of the main thread's lives, it may be waiting so. There may be one within another.
/// Those of other threads mean nothing.
class OutputWait {
  public:
    OutputWait() {
        if (is_main_ && depth_++ == 0) {
            count_.fetch_add(1);
        }
    }
    ~OutputWait() {
        if (is_main_ && --depth_ == 0) {
            count_.fetch_add(1);
        }
    }
    OutputWait(const OutputWait&) = delete;
    OutputWait& operator=(const OutputWait&) = delete;

    /// The reader has taken something.
    void note_progress() const { count_.fetch_add(is_main_ ? 2 : 0); }
    /// Odd while there is one. If it is the same later on, that is the same one, and nothing has
    /// been taken meanwhile.
    [[nodiscard]] static std::uint64_t count() { return count_.load(); }

  private:
    inline static std::atomic<std::uint64_t> count_{0};
    inline static int depth_ = 0; ///< the main thread's
    const bool is_main_ = gettid() == getpid();
};

/// Writes all of it, in pieces, and waits as long as it takes; also where somebody else has made
/// the file non-blocking. In an OutputWait. 0, or errno.
int write_and_wait(int fd, const char* bytes, std::uint64_t size);

} // namespace memleax
