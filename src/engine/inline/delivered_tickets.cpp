// SPDX-License-Identifier: GPL-3.0-or-later
#include "delivered_tickets.hpp"

#include <algorithm>
#include <iterator>

namespace memleax {

void DeliveredTickets::add(std::uint64_t ticket) {
    if (ticket == in_order_) {
        ++in_order_;
        take_those_behind();
    } else if (ticket > in_order_ && out_of_order_.size() < kMostOutOfOrder) {
        out_of_order_.insert(ticket);
    }
}

void DeliveredTickets::take_those_behind() {
    auto next = out_of_order_.begin();
    for (; next != out_of_order_.end() && *next == in_order_; ++next) {
        ++in_order_;
    }
    out_of_order_.erase(out_of_order_.begin(), next);
}

void DeliveredTickets::mark(std::uint64_t tickets, MonotonicNs time) {
    marks_.emplace_back(tickets, time);
    if (time.value() - marks_.front().second.value() > kMostWaitNs) {
        in_order_ = std::max(in_order_, marks_.front().first);
        out_of_order_.erase(out_of_order_.begin(), out_of_order_.lower_bound(in_order_));
        take_those_behind();
    }
    const auto unreached = std::find_if(
        marks_.begin(), marks_.end(), [this](const auto& mark) { return mark.first > in_order_; });
    if (unreached != marks_.begin()) {
        until_ = std::prev(unreached)->second;
        marks_.erase(marks_.begin(), unreached);
    }
}

void DeliveredTickets::forget() {
    in_order_ = 0;
    out_of_order_.clear();
    marks_.clear();
}

} // namespace memleax
