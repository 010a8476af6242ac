// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/calls/pending_calls.hpp"

namespace memleax {

PendingCall PendingCalls::pop() {
    const PendingCall call = calls_.back();
    calls_.pop_back();
    if (calls_.empty()) {
        handler_possible_ = false;
    }
    return call;
}

Nesting PendingCalls::on_entry(CodeAddr entry, RemoteAddr sp_after_return,
                               std::vector<PendingCall>* abandoned) {
    while (!calls_.empty()) {
        if (handler_possible_) {
            return Nesting::unclear;
        }
        const PendingCall& top = calls_.back();
        if (sp_after_return < top.sp_after_return) {
            return Nesting::nested;
        }
        // With the same frame and another function: the pending one has jumped to it as its last
        // deed (aligned_alloc to memalign, an interposer to the real one), and it will return to
        // the same place. The same function once more from the same frame: the first never
        // returned.
        if (sp_after_return == top.sp_after_return && entry != top.entry) {
            return Nesting::nested;
        }
        abandoned->push_back(pop());
    }
    return Nesting::outermost;
}

std::optional<PendingCall> PendingCalls::on_return(CodeAddr return_address, RemoteAddr sp,
                                                   std::vector<PendingCall>* abandoned) {
    for (std::size_t i = calls_.size(); i-- > 0;) {
        if (calls_[i].return_address == return_address && calls_[i].sp_after_return == sp) {
            while (calls_.size() > i + 1) {
                abandoned->push_back(pop());
            }
            return pop();
        }
    }
    return std::nullopt;
}

} // namespace memleax
