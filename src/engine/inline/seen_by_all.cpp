// SPDX-License-Identifier: GPL-3.0-or-later
#include "seen_by_all.hpp"

#include <algorithm>
#include <cstdint>

namespace memleax {

namespace {

/// Before all CPUs are waited for instead, which takes some milliseconds each time where they
/// cannot be visited.
constexpr std::int64_t kForAllToRestNs = 2'000'000;

} // namespace

bool SeenByAll::any_runs() const {
    const auto& threads = target_.threads();
    return !target_.expected_children().empty() ||
           std::any_of(threads.begin(), threads.end(),
                       [this](const auto& each) { return !target_.is_stopped(each.first); });
}

// Where no thread runs, nothing is needed.
void SeenByAll::begin(bool may_rest) {
    may_rest_ = may_rest;
    barrier_is_due_.reset();
    if (!any_runs() || barrier_.pass_at_once()) {
        return;
    }
    if (may_rest) {
        at_rest_.begin();
        at_rest_.look();
        barrier_is_due_ = MonotonicNs(monotonic_now().value() + kForAllToRestNs);
    } else {
        barrier_.begin();
    }
}

void SeenByAll::look() {
    if (!may_rest_) {
        return;
    }
    at_rest_.look();
    if (!at_rest_.all_rest() && barrier_is_due_ && *barrier_is_due_ < monotonic_now()) {
        barrier_is_due_.reset();
        barrier_.begin();
    }
}

bool SeenByAll::is_over() const {
    return (may_rest_ && at_rest_.all_rest()) || (!barrier_is_due_ && barrier_.is_over());
}

} // namespace memleax
