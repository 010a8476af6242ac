// SPDX-License-Identifier: GPL-3.0-or-later
/// The last calls that have mapped or unmapped memory, as they happened.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "memleax/base/types.hpp"
#include "memleax/events/mapping_event.hpp"

namespace memleax {

struct LoggedMapping {
    std::uint64_t number = 0; ///< of its process: 1, 2, ...
    MonotonicNs time;
    Tid tid;
    MappingCall call{};
    MemoryKind kind{};
    AddrRange added;         ///< empty: none
    AddrRange unmapped;      ///< as the call names it; empty: none
    std::uint64_t known = 0; ///< bytes that have ended and that we knew
    bool failed = false;
    StackId stack = kNoStack;
};

/// Bounded: the oldest is forgotten first.
class MappingLog {
  public:
    static constexpr std::size_t kCapacity = 10'000;

    void add(LoggedMapping call) {
        call.number = ++last_;
        calls_.push_back(call);
        if (calls_.size() > kCapacity) {
            calls_.pop_front();
        }
    }
    /// The number of the last one; 0: there was none.
    [[nodiscard]] std::uint64_t last() const { return last_; }
    /// Those with greater numbers than this, `limit` of them at most; the oldest of them first.
    [[nodiscard]] std::vector<LoggedMapping> after(std::uint64_t number, std::size_t limit) const {
        const std::uint64_t first = last_ - calls_.size(); // the number before it
        const std::uint64_t skipped = number > first ? number - first : 0;
        std::vector<LoggedMapping> result;
        for (std::size_t i = skipped; i < calls_.size() && result.size() < limit; ++i) {
            result.push_back(calls_[i]);
        }
        return result;
    }

  private:
    std::deque<LoggedMapping> calls_;
    std::uint64_t last_ = 0;
};

} // namespace memleax
