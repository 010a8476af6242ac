// SPDX-License-Identifier: GPL-3.0-or-later
#include "memleax/target/code_barrier.hpp"

#include <chrono>

#include "memleax/base/all_signals_blocked.hpp"
#include "memleax/target/code_patch.hpp"

namespace memleax {

// Where no thread can be made it is deferred: to result(). The thread that handles a fatal signal
// waits for the tracer thread.
void CodeBarrier::begin() {
    const AllSignalsBlocked blocked;
    result_ = std::async(std::launch::async | std::launch::deferred, synchronize_code);
}

bool CodeBarrier::is_over() const {
    return !result_.valid() ||
           result_.wait_for(std::chrono::seconds(0)) != std::future_status::timeout;
}

Result<void> CodeBarrier::result() {
    return result_.valid() ? result_.get() : Result<void>();
}

} // namespace memleax
