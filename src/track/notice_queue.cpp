// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/track/notice_queue.hpp"

namespace memleax {

void NoticeQueue::add(const Notice& notice) {
    constexpr std::size_t kMost = 10'000;
    const bool limit =
        notice.kind == Notice::Kind::block_limit || notice.kind == Notice::Kind::stack_limit;
    const bool first = notice.kind == Notice::Kind::expired && notice.count == 1;
    if (limit || (all_ && (first || notices_.size() < kMost))) {
        notices_.push_back(notice);
    }
}

} // namespace memleax
