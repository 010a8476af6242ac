// SPDX-License-Identifier: GPL-3.0-or-later
#include "held_hits.hpp"

#include <cstddef>
#include <utility>

namespace memleax {

namespace {

constexpr std::size_t kMostThreads = 256;

} // namespace

void HeldHits::begin() {
    if (target_.threads().size() <= kMostThreads) {
        is_on_ = true;
        first_look_.reset();
        others_.begin();
        others_.look();
    }
}

void HeldHits::hold(Tid tid) {
    target_.consume_stop(tid);
    held_.push_back(tid);
}

void HeldHits::look() {
    if (is_on_) {
        others_.look();
        if (!first_look_) {
            first_look_ = monotonic_now();
        }
    }
}

void HeldHits::after_stop(Tid tid) {
    if (target_.threads().contains(tid) && !target_.is_stopped(tid)) {
        others_.on_resumed(tid);
    }
}

void HeldHits::on_thread_gone(Tid tid) {
    std::erase(held_, tid);
    others_.on_thread_gone(tid);
}

bool HeldHits::is_over() const {
    return !is_on_ || may_stay() ||
           (first_look_ && monotonic_now().value() - first_look_->value() > kMostStandingNs);
}

std::vector<Tid> HeldHits::release() {
    is_on_ = false;
    return std::exchange(held_, {});
}

} // namespace memleax
