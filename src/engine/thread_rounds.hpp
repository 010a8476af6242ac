// SPDX-License-Identifier: GPL-3.0-or-later
/// Threads that are to be looked at until each has been seen as it should be, a few milliseconds at
/// a time, as stops wait meanwhile.
#pragma once

#include <set>
#include <vector>

#include "memleax/base/clock.hpp"
#include "memleax/base/types.hpp"

namespace memleax {

class ThreadRounds {
  public:
    void add(Tid tid) { left_.insert(tid); }
    void erase(Tid tid) { left_.erase(tid); }
    void clear() { left_.clear(); }
    [[nodiscard]] bool contains(Tid tid) const { return left_.contains(tid); }
    [[nodiscard]] std::size_t size() const { return left_.size(); }
    [[nodiscard]] bool empty() const { return left_.empty(); }

    /// Once around, from where it ended the last time: those that `is_done(tid)` are done.
    template <class IsDone> void look(const IsDone& is_done) {
        constexpr std::int64_t kMostNs = 3'000'000;
        const std::int64_t end = monotonic_now().value() + kMostNs;
        std::vector<Tid> all(left_.upper_bound(looked_at_last_), left_.end());
        all.insert(all.end(), left_.begin(), left_.upper_bound(looked_at_last_));
        for (const Tid tid : all) {
            if (is_done(tid)) {
                left_.erase(tid);
            }
            looked_at_last_ = tid;
            if (monotonic_now().value() > end) {
                return;
            }
        }
    }

  private:
    std::set<Tid> left_;
    Tid looked_at_last_;
};

} // namespace memleax
