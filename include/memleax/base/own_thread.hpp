// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <exception>
#include <thread>

namespace memleax {

/// Has `work` done by a thread that ends afterwards, and waits for that. What `work` throws is
/// thrown here. False if no thread can be made (RLIMIT_NPROC, pids.max, no memory for its stack):
/// nothing has been done then.
template <typename Work> [[nodiscard]] bool in_own_thread(const Work& work) {
    std::exception_ptr thrown;
    std::thread thread;
    try {
        thread = std::thread([&] {
            try {
                work();
            } catch (...) {
                thrown = std::current_exception();
            }
        });
    } catch (const std::exception&) {
        return false;
    }
    thread.join();
    if (thrown) {
        std::rethrow_exception(thrown);
    }
    return true;
}

} // namespace memleax
