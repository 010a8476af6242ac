// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/code_barrier.hpp"

#include <chrono>

#include "memleax/base/all_signals_blocked.hpp"
#include "memleax/target/code_patch.hpp"

namespace memleax {

bool CodeBarrier::pass_at_once() {
    may_be_at_once_ = may_be_at_once_ && visit_all_cpus();
    return may_be_at_once_;
}

// Where no thread can be made it is deferred: to result(). The thread that handles a fatal signal
// waits for the tracer thread.
void CodeBarrier::begin() {
    const AllSignalsBlocked blocked;
    result_ = std::async(std::launch::async | std::launch::deferred, wait_for_all_cpus);
}

bool CodeBarrier::is_over() const {
    return !result_.valid() ||
           result_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
}

Result<void> CodeBarrier::result() {
    return result_.valid() ? result_.get() : Result<void>();
}

} // namespace memleax
