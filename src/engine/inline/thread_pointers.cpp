// SPDX-License-Identifier: GPL-3.0-or-later
#include "thread_pointers.hpp"

namespace memleax {

using arch::ThreadPointerFrom;

void ThreadPointers::see(Tid tid, bool is_in_memory) {
    if (is_in_memory) {
        without_.erase(tid);
        any_in_memory_ = true;
    } else {
        without_.insert(tid);
    }
}

ThreadPointerFrom ThreadPointers::from() const {
    if (arch::kThreadPointerIsInMemory && any_in_memory_ && without_.empty()) {
        return ThreadPointerFrom::memory;
    }
    return may_ask_cpu_ ? ThreadPointerFrom::cpu : ThreadPointerFrom::nowhere;
}

} // namespace memleax
